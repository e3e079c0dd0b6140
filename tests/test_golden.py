"""Stores made once and kept (tests/golden): the present program reads each as it was, or says why not. A change that fails here changes the
format: raise its version in SPEC.md, and make golden stores of the new edition beside these."""
import json
import tarfile
from pathlib import Path

import h5py
import numpy as np
import pytest

from h5compare import differences
from store_format import Manifest, record_codecs
from support import Rows, by_gene, columns, fetch_csr, fetch_dense, info, ok, run

GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(p.name.removesuffix(".tar.xz") for p in GOLDEN.glob("*.tar.xz"))
STORES = [n for n in NAMES if n != "versions"]
EDITION = ["codec-count", "codec-dict", "codec-lz4", "codec-plain", "orders", "parts", "shuffled", "source-order", "versions"]


def unpack(name, folder):
    with tarfile.open(GOLDEN / f"{name}.tar.xz") as tar:
        for member in tar:
            target = folder / member.name
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(tar.extractfile(member).read())
    return json.loads((folder / "golden.json").read_text())


@pytest.fixture
def golden(request, tmp_path):
    facts = unpack(request.param, tmp_path)
    return tmp_path, tmp_path / "store", facts


def test_all_are_there():
    assert set(EDITION) <= set(NAMES) and sum(n.startswith("earlier-") for n in NAMES) >= 6


def texts(h5, path):
    return [x if isinstance(x, bytes) else x.encode() for x in h5[path][()].tolist()]


def order_of(store, part, n):
    """Part row → row of the source."""
    found = Manifest(store).row_order(part)
    return np.arange(n) if found is None else found["row_order"].astype("i8")


def check_rows(store, work, facts):
    first = 0
    genes, = [c.values for (axis, _), c in columns(store, "joint").items() if axis == "var" and c.is_index]
    for part, name in enumerate(facts["parts"]):
        with h5py.File(work / name) as f:
            var = texts(f, "var/_index")
            for matrix in facts["matrices"]:
                rows = Rows(f[matrix])
                order = order_of(store, part, rows.shape[0])
                asked = first + np.arange(len(order))
                dense = np.zeros(rows.shape, rows.values.dtype)
                row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
                dense[row, rows.indices] = rows.values
                if matrix == "X" and len(facts["parts"]) > 1:  # columns of the store
                    wide = np.zeros((len(dense), len(genes)), dense.dtype)
                    wide[:, [genes.index(g) for g in var]] = dense
                    dense = wide
                else:
                    for got, want in zip(by_gene(*fetch_csr(store, matrix, asked)), by_gene(*rows.take(order))):
                        assert got.tobytes() == want.tobytes(), (name, matrix)
                assert fetch_dense(store, matrix, asked).tobytes() == dense[order].tobytes(), (name, matrix)
            first += len(order)
    assert info(store)["n_obs"] == first


def raw_bytes(x):
    return [np.asarray(v).tobytes() for v in x]


def check_columns(store, work, facts):
    """Names, texts, categories and masks of obs against the sources."""
    found, first = columns(store, "joint"), 0
    for part, name in enumerate(facts["parts"]):
        with h5py.File(work / facts.get("annotated", {}).get(str(part), name)) as f:
            names = texts(f, "obs/_index")
            order = order_of(store, part, len(names))
            here = slice(first, first + len(names))
            pick = lambda values: [values[i] for i in order]
            assert found["obs", "_index"].values[here] == pick(names)
            assert found["obs", "note"].values[here] == pick(texts(f, "obs/note"))
            for column in ("depth", "score", "passed"):
                assert found["obs", column].values[here] == pick(raw_bytes(f["obs"][column][()])), column
            age = [None if m else np.asarray(v).tobytes() for v, m in zip(f["obs/age/values"][()], f["obs/age/mask"][()])]
            assert found["obs", "age"].values[here] == pick(age)
            for column in ("kind", "stage"):
                labels, codes = texts(f, f"obs/{column}/categories"), f["obs"][column]["codes"][()]
                assert found["obs", column].values[here] == pick([None if c < 0 else labels[c] for c in codes]), column
            first += len(names)


@pytest.mark.parametrize("golden", STORES, indirect=True)
def test_store_is_read_as_it_was(golden):
    work, store, facts = golden
    assert ok("verify", store).out.startswith("ok: ")
    check_rows(store, work, facts)
    check_columns(store, work, facts)
    used = {c for path in (store / "objects").glob("*.anns") for c in record_codecs(path.read_bytes())}
    assert "codec" not in facts or facts["codec"] in used


@pytest.mark.parametrize("golden", STORES, indirect=True)
def test_store_is_exported_as_it_was(golden):
    work, store, facts = golden
    for part, name in enumerate(facts["parts"]):
        out = work / f"out{part}.h5ad"
        generation = ["--generation", "2"] if "annotated" in facts else []
        ok("export", store, "-o", out, "--part", part, *generation)
        assert differences(work / name, out) == [], name


@pytest.mark.parametrize("golden", ["parts"], indirect=True)
def test_generations(golden):
    work, store, facts = golden
    assert info(store)["generations"] == facts["generations"]
    for generation, cells in [(1, 50), (2, 60), (3, 60)]:
        assert json.loads(ok("info", store, "--json", "--generation", generation).out)["n_obs"] == cells
    ok("export", store, "-o", work / "d.out.h5ad", "--part", 1)
    with h5py.File(work / "d.h5ad") as new, h5py.File(work / "d.out.h5ad") as got, h5py.File(work / "b.h5ad") as old:
        assert texts(got, "obs/kind/categories") == texts(new, "obs/kind/categories")
        assert got["X/data"][()].tobytes() == old["X/data"][()].tobytes()


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("versions")
    return folder, unpack("versions", folder)["stores"]


READERS = {".annm": ["verify", "head", "export", "sample"], ".anns": ["verify", "head", "export"], ".annc": ["verify", "head"]}
MINDERS = {"manifest-compat": [], "manifest-export": ["export"]}  # who minds; the others may ignore it


@pytest.mark.parametrize("command", READERS[".annm"])
def test_other_versions_are_refused(command, versions, tmp_path):
    """By every command that reads the file: which one, what it is, what is known, what to do. Never "damaged"."""
    folder, stores = versions
    for name, facts in stores.items():
        result = run(command, folder / name, *(["-o", "out.h5ad"] if command == "export" else []), cwd=tmp_path)
        if command not in MINDERS.get(name, READERS[facts["file"]]):
            assert result.code == 0, f"{name}: {result}"
            (tmp_path / "out.h5ad").unlink(missing_ok=True)
            continue
        assert result.code == 1 and len(result.err.splitlines()) <= 1, f"{name}: {result}"
        text = result.out if command == "verify" and result.out else result.err
        assert facts["file"] in text and all(says in text for says in facts["says"]), f"{name}: {text}"
        assert not any(word in text for word in ("corrupt", "damaged", "hash")), f"{name}: {text}"
        assert list(tmp_path.iterdir()) == []
