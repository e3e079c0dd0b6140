"""Whole files through the command: pack, verify, read, export, compare; and refusals that leave nothing behind."""
import shutil

import h5py
import numpy as np
import pandas as pd
import pytest

import made_files
from h5compare import differences
from support import LONG, SANITIZED, Rows, by_gene, columns, fetch_csr, fetch_dense, info, listed, ok, opens_in_anndata, real_files, refused, run, sidecar, tree

NOT_YET = listed("not_yet.txt")
BESIDE = {"gen_layout_external_storage.h5ad": ("gen_ext.bin", np.arange(20, dtype="f4").tobytes())}  # a file with X's values, which is not in the folder
SLOW = {"gen_csr_nnz_over_2p31_vds.h5ad"}
KINDS = {".h5mu": "MuData", ".loom": "loom", ".h5": "10x"}


def files(folder):
    return [pytest.param(p, id=p.name) for p in real_files(folder)] or [pytest.param(None, marks=pytest.mark.skip(reason="H5AD_DIR is not set"))]


# ---- which matrices there are ----


def node_of(f, name):
    """The object of a matrix; None when it is not there. Old files call raw/X raw.X."""
    for path in (name, "raw.X") if name == "raw/X" else (name,):
        try:
            return f[path]
        except (KeyError, OSError):
            pass
    return None


def is_matrix(node, f):
    """A numeric array of two dimensions in this very file, dense, CSR or CSC."""
    if node is None or node.file != f:
        return False
    if isinstance(node, h5py.Dataset):
        return node.shape is not None and node.ndim == 2 and node.dtype.kind in "iufb" and node.dtype.itemsize <= 8
    encoding = node.attrs.get("encoding-type", node.attrs.get("h5sparse_format", ""))
    encoding = encoding.decode() if isinstance(encoding, bytes) else encoding
    return encoding in ("csr_matrix", "csc_matrix", "csr", "csc")


def matrices(source):
    """What --matrix all packs: X, layers, raw/X, obsm."""
    with h5py.File(source, "r", locking=False) as f:
        keys = lambda slot: [f"{slot}/{k}" for k in sorted(f[slot], key=str.encode)] if isinstance(f.get(slot), h5py.Group) else []
        return [n for n in ["X", *keys("layers"), "raw/X", *keys("obsm")] if is_matrix(node_of(f, n), f)]


# ---- what a round trip must keep ----


def check_exported(source, store, work):
    out = work / "out.h5ad"
    ok("export", store, "-o", out, timeout=300)
    found = differences(source, out)
    assert not found, "\n".join(found[:20])
    same = ok("convert-check", source, out, timeout=300)
    assert same.out.startswith("ok"), str(same)
    out.unlink()


def check_rows(source, store):
    """Rows read through the store are those that h5py gives: all in order, then some in another order and twice. A store sorts the elements
    of a row by numbers of its own; repeats keep their order."""
    about = info(store)
    with h5py.File(source, "r", locking=False) as f:
        for m in about["matrices"]:
            rows = Rows(node_of(f, m["name"]))
            assert list(rows.shape) == m["shape"] and len(rows.values) == m["nnz"], m
            some = np.random.default_rng(0).integers(0, rows.shape[0], 50) if rows.shape[0] else np.zeros(0, "i8")
            for wanted in (np.arange(rows.shape[0]), some):
                for got, expected in zip(by_gene(*fetch_csr(store, m["name"], wanted)), by_gene(*rows.take(wanted))):
                    assert got.tobytes() == expected.tobytes()
            if rows.shape[1] < 20000 and not rows.has_repeats():
                indptr, indices, values = rows.take(some)
                dense = np.zeros((len(some), rows.shape[1]), values.dtype)
                dense[np.repeat(np.arange(len(some)), np.diff(indptr)), indices] = values
                assert fetch_dense(store, m["name"], some).tobytes() == dense.tobytes()
    x = [m for m in about["matrices"] if m["name"] == "X"]
    assert about["nnz"] == (x[0]["nnz"] if x else 0)


def as_bytes(values):
    """The values of a pandas column as the store holds them: bytes, None where missing."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        categories = as_bytes(pd.Series(values.cat.categories))
        return [None if c < 0 else categories[c] for c in values.cat.codes]
    if pd.api.types.is_extension_array_dtype(values.dtype) and values.dtype.kind in "iufb":
        data = values.array._data
        return [None if m else v.tobytes() for v, m in zip(data, values.array._mask)]
    if values.dtype.kind in "iufb":
        return [v.tobytes() for v in values.to_numpy()]
    return [v.encode() if isinstance(v, str) else None for v in values]


def check_columns(adata, store):
    """Names and columns in the store are those that anndata reads, where it holds them."""
    held = columns(store)
    for axis, frame in (("obs", adata.obs), ("var", adata.var)):
        index = [c for (a, _), c in held.items() if a == axis and c.is_index]
        assert len(index) <= 1
        if index and frame.index.dtype == object:
            names = [str(int.from_bytes(v, "little", signed=True)).encode() for v in index[0].values] if index[0].kind == "fixed" else index[0].values
            assert names == [str(v).encode() for v in frame.index], f"names of {axis}"
        for name in frame.columns[~frame.columns.duplicated(keep=False)]:
            column = held.get((axis, str(name)))
            if column is not None and not column.is_index:
                assert column.values == as_bytes(frame[name]), f"{axis}/{name}"


def aliases(source, packed):
    """Other names of packed matrices, which are not in the sidecar either; nor is what lies in another file."""
    with h5py.File(source, "r", locking=False) as f:
        names = [f"{slot}/{k}" for slot in ("layers", "obsm") if isinstance(f.get(slot), h5py.Group) for k in f[slot]] + ["raw/X"]
        nodes = {n: node_of(f, n) for n in names}
        return {n for n, node in nodes.items() if node is not None and (node.file != f or any(node == node_of(f, p) for p in packed))}


def check_sidecar(source, adata, store, packed):
    """The sidecar opens in anndata and has what was not packed."""
    elsewhere = aliases(source, packed)
    aside = opens_in_anndata(sidecar(store))
    assert aside is not None, "the sidecar does not open in anndata"
    assert list(aside.obs.columns) == list(adata.obs.columns) and list(aside.var.columns) == list(adata.var.columns)
    assert list(aside.uns) == list(adata.uns) and aside.shape == adata.shape
    assert (aside.X is None) == (adata.X is None or "X" in packed)
    for slot in ("layers", "obsm"):
        assert {f"{slot}/{k}" for k in getattr(aside, slot)} == {f"{slot}/{k}" for k in getattr(adata, slot)} - set(packed) - elsewhere
    if "raw/X" in set(packed) | elsewhere:
        assert aside.raw is None
    elif adata.raw is not None:
        assert aside.raw is not None and aside.raw.shape == adata.raw.shape


def round_trip(source, work, *options):
    store = work / "s.annblock"
    result = ok("pack", source, "-o", store, *options, timeout=600)
    packed = [m["name"] for m in info(store)["matrices"]]
    assert packed == (matrices(source) if options else [n for n in matrices(source) if n == "X"])
    assert "packed" in result.err and result.out == "", str(result)
    assert ok("verify", store, timeout=300).out.startswith("ok: ")
    assert ok("head", store).code == 0
    check_exported(source, store, work)
    if SANITIZED:
        return
    check_rows(source, store)
    adata = opens_in_anndata(source)
    if adata is not None:
        check_sidecar(source, adata, store, packed)
        check_columns(adata, store)


def check_refused(source, work, *options):
    before = tree(work)
    message = refused(run("pack", source, "-o", work / "s.annblock", *options), source.name)
    assert tree(work) == before and not (work / "s.annblock").exists(), "something was left behind"
    return message


def check_large(source, work):
    """More elements than Python should hold: packed, verified, counted, and some rows read."""
    store = work / "s.annblock"
    ok("pack", source, "-o", store, timeout=1800)
    assert ok("verify", store, timeout=1800).out.startswith("ok: ")
    with h5py.File(source, "r", locking=False) as f:
        indptr = f["X/indptr"][()].astype("i8")
        assert info(store)["nnz"] == indptr[-1]
        for row in (0, len(indptr) // 2, len(indptr) - 2):
            part = slice(indptr[row], indptr[row + 1])
            counts, indices, values = fetch_csr(store, "X", [row])
            assert counts[1] == part.stop - part.start
            assert (indices == f["X/indices"][part]).all() and values.tobytes() == f["X/data"][part].tobytes()


# ---- files ----


ALL = ("--matrix", "all")
WHAT = pytest.mark.parametrize("what", [(), ALL], ids=["default", "all"])


@WHAT
@pytest.mark.parametrize("source", files("accept"))
def test_accept(source, what, tmp_path, monkeypatch):
    if source.name in SLOW and not (LONG and what == ()):
        pytest.skip("make check-long packs it" if what == () else "it has an X only")
    if source.name in BESIDE:
        name, values = BESIDE[source.name]
        assert name in check_refused(source, tmp_path, *what)
        source = shutil.copy(source, tmp_path / source.name)
        (tmp_path / name).write_bytes(values)
        monkeypatch.chdir(tmp_path)  # where h5py looks for it
    if source.name in SLOW:
        check_large(source, tmp_path)
    elif source.name in NOT_YET:
        check_refused(source, tmp_path)
    else:
        round_trip(source, tmp_path, *what)


@WHAT
@pytest.mark.parametrize("source", files("either"))
def test_either(source, what, tmp_path):
    if run("pack", source, "-o", tmp_path / "probe", *what).code == 0:
        shutil.rmtree(tmp_path / "probe")
        round_trip(source, tmp_path, *what)
    else:
        check_refused(source, tmp_path)


@pytest.mark.parametrize("source", files("reject"))
def test_reject(source, tmp_path):
    check_refused(source, tmp_path)


@pytest.mark.parametrize("source", files("notad"))
def test_not_anndata(source, tmp_path):
    message = check_refused(source, tmp_path)
    assert KINDS[source.suffix].lower() in message.lower(), f"does not say what the file is: {message}"


@pytest.mark.parametrize("name", sorted(made_files.ACCEPT))
def test_made(name, tmp_path, monkeypatch):
    source = tmp_path / "in" / f"{name}.h5ad"
    source.parent.mkdir()
    monkeypatch.chdir(source.parent)  # where h5py looks for raw values in other files
    made_files.ACCEPT[name](source)
    if source.name in NOT_YET:
        check_refused(source, tmp_path)
    else:
        round_trip(source, tmp_path)


@pytest.mark.parametrize("name", sorted(made_files.MATRICES))
@WHAT
def test_made_matrices(name, what, tmp_path):
    source = tmp_path / "in" / f"{name}.h5ad"
    source.parent.mkdir()
    made_files.MATRICES[name](source)
    round_trip(source, tmp_path, *what)


@pytest.mark.parametrize("name", sorted(made_files.REJECT_MATRICES))
def test_made_matrices_bad(name, tmp_path):
    """What is damaged in another matrix than X matters when that is packed."""
    source = tmp_path / "in" / f"{name}.h5ad"
    source.parent.mkdir()
    made_files.REJECT_MATRICES[name](source)
    check_refused(source, tmp_path, *ALL)
    ok("pack", source, "-o", tmp_path / "s.annblock")


@pytest.mark.parametrize("name", sorted(made_files.REJECT))
def test_made_bad(name, tmp_path):
    source = tmp_path / "in" / f"{name}.h5ad"
    source.parent.mkdir()
    made_files.REJECT[name](source)
    check_refused(source, tmp_path)


def test_not_yet_is_current():
    """Every line names a file that is tested here, with a reason."""
    known = {p.name for p in real_files("accept")} | {f"{n}.h5ad" for n in made_files.ACCEPT}
    for name, reason in NOT_YET.items():
        assert reason, f"{name} has no reason"
        assert name in known or not real_files("accept"), f"{name} is not among the files"
