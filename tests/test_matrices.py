"""The option --matrix: what it names, what it refuses, and what the other commands show of it."""
import hashlib

import h5py
import numpy as np
import pytest

import made_files
from h5compare import differences
from support import Rows, by_gene, fetch_csr, info, ok, opens_in_anndata, refused, run, sidecar, tree


@pytest.fixture
def slots(tmp_path):
    """X, two layers, raw with another var, obsm of several kinds."""
    source = tmp_path / "in" / "a.h5ad"
    source.parent.mkdir()

    def fill(f):
        made_files.write_sparse(f, "layers/counts", made_files.more(2))
        made_files.write_sparse(f, "layers/spliced", made_files.more(3, form="csc"))
        made_files.raw_other_var_slots(f)
        made_files.write_dense(f, "obsm/X_pca", np.random.default_rng(1).normal(size=(130, 6)).astype("f4"))
        made_files.write_frame(f, "obsm/frame", [f"cell{i}" for i in range(130)], [("a", np.arange(130))])

    made_files.with_more(source, fill)
    return source


def names(store):
    return [m["name"] for m in info(store)["matrices"]]


def objects(store):
    return sorted(p.name for p in (store / "objects").iterdir())


def test_names_in_any_order(slots, tmp_path):
    orders = (["raw/X", "layers/counts", "obsm/X_pca"], ["obsm/X_pca", "raw/X", "layers/counts", "raw/X"])
    for i, order in enumerate(orders):
        ok("pack", slots, "-o", tmp_path / str(i), *[a for n in order for a in ("--matrix", n)])
        assert names(tmp_path / str(i)) == ["layers/counts", "raw/X", "obsm/X_pca"]
    assert objects(tmp_path / "0") == objects(tmp_path / "1")
    aside = opens_in_anndata(sidecar(tmp_path / "0"))
    assert aside.X is not None and list(aside.layers) == ["spliced"] and list(aside.obsm) == ["frame"] and aside.raw is None


def test_threads_do_not_matter(slots, tmp_path):
    for threads in ("1", "3"):
        ok("pack", slots, "-o", tmp_path / threads, "--matrix", "all", "--threads", threads, "--segment-rows", "50")
    assert tree(tmp_path / "1") == tree(tmp_path / "3")
    assert [m["segments"] for m in info(tmp_path / "1")["matrices"]] == [3] * 5


def test_all_with_names(slots, tmp_path):
    result = ok("pack", slots, "-o", tmp_path / "s", "--matrix", "X", "--matrix", "all")
    assert names(tmp_path / "s") == ["X", "layers/counts", "layers/spliced", "raw/X", "obsm/X_pca"]
    assert "in 5 matrices" in result.err and "note" not in result.err


@pytest.mark.parametrize("name", ["layers/none", "obsm/frame", "raw/var", "counts", "/X", "", "obs", "layers"])
def test_wrong_names(slots, tmp_path, name):
    before = tree(tmp_path)
    message = refused(run("pack", slots, "-o", tmp_path / "s", "--matrix", "X", "--matrix", name), "a.h5ad")
    assert f"'{name}'" in message and "X, layers/counts, layers/spliced, raw/X, obsm/X_pca" in message
    assert tree(tmp_path) == before and not (tmp_path / "s").exists()


def test_many_names_are_cut(tmp_path):
    source = tmp_path / "a.h5ad"
    made_files.with_more(source, lambda f: [made_files.write_dense(f, f"obsm/{'long' * 20}{i}", np.ones((130, 1))) for i in range(60)])
    message = refused(run("pack", source, "-o", tmp_path / "s", "--matrix", "layers/none"), "a.h5ad")
    assert message.endswith("…") and len(message) < 2000


def test_note_of_what_is_left(slots, tmp_path):
    with h5py.File(slots.parent / "other.h5", "w") as f:
        f["there"] = np.ones((130, 25))
    with h5py.File(slots, "r+") as f:
        f["layers/elsewhere"] = h5py.ExternalLink("other.h5", "/there")
    result = ok("pack", slots, "-o", tmp_path / "s", "--matrix", "all")
    assert "note: 1 matrix can not be packed and stays in the sidecar" in result.err and "/layers/elsewhere" in result.err
    ok("export", tmp_path / "s", "-o", slots.parent / "out.h5ad")
    assert not differences(slots, slots.parent / "out.h5ad")


def test_info_shows_each(slots, tmp_path):
    ok("pack", slots, "-o", tmp_path / "s", "--matrix", "all")
    about, text = info(tmp_path / "s"), ok("info", tmp_path / "s").out
    assert {m["name"]: (m["shape"], m["form"]) for m in about["matrices"]} == {
        "X": ([130, 25], "csr"), "layers/counts": ([130, 25], "csr"), "layers/spliced": ([130, 25], "csc"), "raw/X": ([130, 60], "csr"), "obsm/X_pca": ([130, 6], "dense")}
    assert about["nnz"] == about["matrices"][0]["nnz"]
    assert all(f"\n{m['name']} " in text for m in about["matrices"])


def test_info_without_x(slots, tmp_path):
    ok("pack", slots, "-o", tmp_path / "s", "--matrix", "layers/counts")
    about = info(tmp_path / "s")
    assert (about["nnz"], about["density"], about["bits_per_nnz"]) == (0, None, None) and about["dtypes"] == {"layers/counts": "f32"}


def test_head_shows_each(slots, tmp_path):
    ok("pack", slots, "-o", tmp_path / "s", "--matrix", "all")
    lines = [line.split() for line in ok("head", tmp_path / "s", "-n", "130").out.splitlines()]
    with h5py.File(slots) as f:
        for name in names(tmp_path / "s"):
            counts = [int(line[-1]) for line in lines if line[:-1] == ["nnz", "of", name]]
            assert counts == list(np.diff(Rows(f[name]).indptr)), name
        pca = f["obsm/X_pca"][0]
        best = " ".join(f"{i}={pca[i]:.6g}"[:4] for i in np.argsort(-pca)[:1])
    first = next(line for line in lines if line[:3] == ["top", "columns", "of"] and line[3] == "obsm/X_pca")
    assert first[4].startswith(best)
    one = ok("head", tmp_path / "s", "-n", "1", "--matrix", "raw/X").out
    assert " nnz " in one and " of " not in one
    assert "'none'" in refused(run("head", tmp_path / "s", "--matrix", "none"), "s")


def test_head_without_matrices(tmp_path):
    made_files.MATRICES["only_obs"](tmp_path / "a.h5ad")
    assert "x 0 genes, no matrix, into" in ok("pack", tmp_path / "a.h5ad", "-o", tmp_path / "s").err
    assert ok("head", tmp_path / "s", "-n", "2").out == "cell0\ncell1\n"


def test_verify_finds_damage_in_each(slots, tmp_path):
    ok("pack", slots, "-o", tmp_path / "s", "--matrix", "all")
    segments = list((tmp_path / "s" / "objects").glob("*.anns"))
    assert len(segments) == 5
    for segment in segments:
        whole = segment.read_bytes()
        segment.chmod(0o644)
        segment.write_bytes(whole[:4100] + bytes([whole[4100] ^ 1]) + whole[4101:])
        assert hashlib.sha256(segment.read_bytes()).hexdigest() not in segment.name
        found = run("verify", tmp_path / "s")
        assert found.code == 1 and segment.name in found.out
        segment.write_bytes(whole)
    ok("verify", tmp_path / "s")


def test_damage_is_met_only_where_it_is(slots, tmp_path):
    """A matrix whose segment is missing does not keep others from being read. The segment of X is the same with and without others."""
    ok("pack", slots, "-o", tmp_path / "x")
    ok("pack", slots, "-o", tmp_path / "s", "--matrix", "X", "--matrix", "raw/X")
    (of_x,) = (tmp_path / "x" / "objects").glob("*.anns")
    (other,) = (p for p in (tmp_path / "s" / "objects").glob("*.anns") if p.name != of_x.name)
    other.unlink()
    with h5py.File(slots) as f:
        want = Rows(f["X"]).take([0, 129])
    for got, expected in zip(by_gene(*fetch_csr(tmp_path / "s", "X", [0, 129])), by_gene(*want)):
        assert got.tobytes() == expected.tobytes()
    assert run("export", tmp_path / "s", "-o", tmp_path / "out.h5ad").code == 1 and not (tmp_path / "out.h5ad").exists()


def test_unknown_matrix_lists_what_there_is(slots, tmp_path):
    ok("pack", slots, "-o", tmp_path / "s", "--matrix", "X", "--matrix", "layers/counts")
    for command in ("head", "bench"):
        assert "has no matrix 'Y'; there are: X, layers/counts" in refused(run(command, tmp_path / "s", "--matrix", "Y"), "s")
