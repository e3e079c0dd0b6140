"""What would write a broken file, or something else than was meant, is refused, and leaves nothing behind."""
import shutil

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from support import EXAMPLE, ok, refused, run, tree


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "example.annblock"
    ok("pack", EXAMPLE, "-o", path)
    return path


@pytest.mark.parametrize("place", ["objects/x", "x", "x.annblock/", "manifests/x", "objects/../objects/x"])
def test_no_store_inside_a_store(store, tmp_path, place):
    before = tree(store)
    for path in (store / place, f"{store}/{place}"):
        assert f"lies inside the store {store.resolve()}" in refused(run("pack", EXAMPLE, "-o", path), "")
    (tmp_path / "link").symlink_to(store / "objects")
    assert "lies inside the store" in refused(run("pack", EXAMPLE, "-o", tmp_path / "link" / "x"), "")
    (store / "deep").mkdir()
    assert "lies inside the store" in refused(run("pack", EXAMPLE, "-o", store / "deep" / "x"), "")
    assert "lies inside the store" in refused(run("export", store, "-o", store / "deep" / "x.h5ad"), "")
    (store / "deep").rmdir()
    assert tree(store) == before


def test_a_store_beside_a_store(store, tmp_path):
    ok("pack", EXAMPLE, "-o", store.parent / "example.annblock2")
    ok("pack", EXAMPLE, "-o", store.parent / "example.annblock2", "--force")


def test_join_key_of_one_file(tmp_path):
    text = refused(run("pack", EXAMPLE, "-o", tmp_path / "s", "--join-key", "nosuch"), "")
    assert EXAMPLE.name in text and "has no column 'nosuch' in var, which genes are to be matched by" in text
    assert not (tmp_path / "s").exists()
    ok("pack", EXAMPLE, "-o", tmp_path / "t", "--join-key", "gene_ids", "--matrix", "all")


def table(path, genes, columns=("id",), rows=4, **obs):
    """A small file whose genes have those names, and a column of var that numbers them."""
    var = pd.DataFrame({c: [f"{c}{i}" for i in range(len(genes))] for c in columns}, index=genes)
    obs = pd.DataFrame(obs, index=[f"{path.stem}{i}" for i in range(rows)])
    anndata.AnnData(sp.csr_matrix(np.ones((rows, len(genes)), "f4")), obs, var).write_h5ad(path)
    return path


def test_no_gene_in_common(tmp_path):
    a, b, c = (table(tmp_path / f"{x}.h5ad", [f"{x}1", f"{x}2"]) for x in "abc")
    text = refused(run("pack", a, b, "-o", tmp_path / "s", "--join", "inner"), "")
    assert f"no gene is in all of {a} and {b}, by name" in text
    assert "--join outer" in text and "--join-key" in text
    text = refused(run("pack", a, b, c, "-o", tmp_path / "s", "--join", "inner"), "")
    assert f"{a}, 1 other and {c}, by name" in text
    ok("pack", a, b, "-o", tmp_path / "s", "--join", "inner", "--join-key", "id")


def test_messages_name_the_store(tmp_path):
    a, b = table(tmp_path / "a.h5ad", ["g1", "g2"]), table(tmp_path / "b.h5ad", ["g2", "g3", "g4"])
    s = tmp_path / "s.annblock"
    ok("pack", a, b, "-o", s, "--join", "outer")
    c = table(tmp_path / "c.h5ad", ["g1"])
    text = refused(run("append", s, c), c.name)
    assert f"has other genes than {s}: 1 and 4" in text
    assert f"{s} has no column 'id' in var" in refused(run("append", s, c, "--join", "outer", "--join-key", "id"), "")
    one = tmp_path / "one"
    ok("pack", a, "-o", one)
    assert "has 1 part (numbered from 0), there is no part 3" in refused(run("export", one, "-o", tmp_path / "o", "--part", "3"), one.name)
    assert "has 1 part (numbered from 0)" in refused(run("annotate", one, "--from", a, "--part", "3"), one.name)


def test_lists_that_begin_with_a_mark(store, tmp_path):
    (tmp_path / "rows").write_bytes(b"\xef\xbb\xbf7\r\n3\r\n")
    ok("export", store, "-o", tmp_path / "o.h5ad", "--rows-file", tmp_path / "rows")
    names = list(anndata.read_h5ad(EXAMPLE).obs_names[[7, 3]])
    assert list(anndata.read_h5ad(tmp_path / "o.h5ad").obs_names) == names
    (tmp_path / "wrong").write_bytes(b"3\n\xef\xbb\xbf4\n")
    assert "line 2 is no row number" in refused(run("export", store, "-o", tmp_path / "p.h5ad", "--rows-file", tmp_path / "wrong"), "")


# ---- export --skip ----


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A store with columns of all encodings, a table in obsm and a raw."""
    path = tmp_path_factory.mktemp("tables")
    obs = pd.DataFrame(
        {"kind": pd.Categorical(["b", "a"] * 5), "maybe": pd.array([1, None] * 5, dtype="Int64"), "number": np.arange(10)},
        index=[f"c{i}" for i in range(10)],
    )
    a = anndata.AnnData(sp.random(10, 4, 0.5, "csr", dtype="f4", random_state=1), obs, layers={"x": np.ones((10, 4), "f4")})
    a.obsm["table"] = pd.DataFrame({"one": np.arange(10), "two": np.arange(10)}, index=obs.index)
    a.uns["table"] = pd.DataFrame({"one": [1]})
    a.raw = a.copy()
    a.write_h5ad(path / "a.h5ad")
    ok("pack", path / "a.h5ad", "-o", path / "s", "--matrix", "all")
    return path


PIECES = [
    ("X/data", "X"), ("/X//indptr", "X"), ("obs/kind/codes", "obs/kind"), ("obs/kind/categories", "obs/kind"),
    ("obs/maybe/mask", "obs/maybe"), ("obs/_index", "obs"), ("obsm/table/_index", "obsm/table"), ("uns/table/one", "uns/table"),
    ("raw/X", "raw"), ("raw/X/data", "raw"), ("raw/var/_index", "raw"), ("obs", None), ("/var/", None),
]  # fmt: skip


@pytest.mark.parametrize("path, whole", PIECES)
def test_skipping_a_piece(tables, tmp_path, path, whole):
    text = refused(run("export", tables / "s", "-o", tmp_path / "o.h5ad", "--skip", path), "cannot be left out")
    assert (f": {whole} could not be read without it" if whole else "columns of it can") in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rows", [(), ("--rows", "2:7")])
def test_skipping_columns(tables, tmp_path, rows):
    skipped = ["obs/kind", "obs//number/", "obsm/table/two", "//layers/x", "raw/varm", "X/"]
    ok("export", tables / "s", "-o", tmp_path / "o.h5ad", *rows, *(arg for path in skipped for arg in ("--skip", path)))
    a, b = anndata.read_h5ad(tables / "a.h5ad")[2 if rows else 0 : 7 if rows else 10], anndata.read_h5ad(tmp_path / "o.h5ad")
    assert list(b.obs.columns) == ["maybe"] and b.obs["maybe"].equals(a.obs["maybe"])
    assert b.obsm["table"].equals(a.obsm["table"][["one"]])
    assert b.X is None and not b.layers and (b.raw.X != a.raw.X).nnz == 0
    ok("export", tables / "s", "-o", tmp_path / "p.h5ad", "--skip", "obs/kind", "--skip", "obs/maybe", "--skip", "obs/number")
    with h5py.File(tmp_path / "p.h5ad") as f:
        assert f["obs"].attrs["column-order"].shape == (0,) and list(f["obs"]) == ["_index"]
    assert anndata.read_h5ad(tmp_path / "p.h5ad").obs.shape == (10, 0)


def test_skipping_what_a_link_leads_to(tables, tmp_path):
    with h5py.File(shutil.copy(tables / "a.h5ad", tmp_path / "a.h5ad"), "r+") as f:
        f["layers/y"] = h5py.SoftLink("x")
        f["layers/z"] = h5py.SoftLink("/layers/x")
    ok("pack", tmp_path / "a.h5ad", "-o", tmp_path / "s")
    out, skip = tmp_path / "o.h5ad", ["--skip", "layers/x"]
    for link in ("layers/y", "layers/z"):
        text = refused(run("export", tmp_path / "s", "-o", out, *skip), "")
        assert f"is a link to what is left out: leave it out with --skip {link}" in text
        skip += ["--skip", link]
    ok("export", tmp_path / "s", "-o", out, *skip)
    assert not anndata.read_h5ad(out).layers
