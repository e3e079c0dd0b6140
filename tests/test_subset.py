"""Export of some cells and genes beside anndata's own subset, and with other compression."""
import warnings

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import made_files
from support import EXAMPLE, ok, opens_in_anndata, real_files, refused, run

MOST_BYTES = 4 << 20
# What is no fault of the subset: anndata takes the colours of unused categories away; columns of one name; codes out of range that fit
# once their rows are gone; a link into another file is refused.
EXCUSED = {
    "cellrank_adata100_0.8.h5ad": "colours",
    "cellrank_adata50_i8_indices.h5ad": "colours",
    "gen_dup_columns_080.h5ad": "columns of one name",
    "gen_same_cat_name_06.h5ad": "categories of two axes under one name",
    "gen_externallink.h5ad": "external link",
}


# ---- comparing ----


def plain(x):
    """With indices of a type that scipy can sort and take."""
    x = type(x)((x.data, x.indices.astype("i8"), x.indptr.astype("i8")), shape=x.shape)
    x.sort_indices()
    return x


def same(a, b, path):
    if sp.issparse(a) or sp.issparse(b):
        assert sp.issparse(a) and sp.issparse(b) and (a.format, a.shape, a.dtype) == (b.format, b.shape, b.dtype), path
        a, b = plain(a), plain(b)
        for name in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), f"{path}.{name}")
    elif isinstance(a, pd.DataFrame):
        pd.testing.assert_frame_equal(a, b, check_categorical=False, obj=path)
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), path
        for key in a:
            same(a[key], b[key], f"{path}/{key}")
    elif isinstance(a, np.ndarray) and a.dtype.names:
        assert a.dtype == b.dtype and a.tolist() == b.tolist(), path
    elif isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), path
        np.testing.assert_array_equal(a, b, path)
    elif a is None or b is None:
        assert a is b, path
    else:  # scalars, and arrays of pandas; what is missing or NaN is equal to itself
        pd.testing.assert_series_equal(pd.Series(a), pd.Series(b), obj=path)


def same_data(a, b):
    for slot in ("obs", "var", "X"):
        same(getattr(a, slot), getattr(b, slot), slot)
    for slot in ("layers", "obsm", "varm", "obsp", "varp", "uns"):
        same(dict(getattr(a, slot)), dict(getattr(b, slot)), slot)
    assert (a.raw is None) == (b.raw is None)
    if a.raw is not None:
        same(a.raw.X, b.raw.X, "raw/X")
        same(a.raw.var, b.raw.var, "raw/var")
        same(dict(a.raw.varm), dict(b.raw.varm), "raw/varm")


def lists(work, rows, genes):
    """Options that ask for the rows and genes; None: all."""
    options = []
    for name, numbers in (("rows", rows), ("genes", genes)):
        if numbers is not None:
            (work / name).write_text("".join(f"{i}\n" for i in numbers))
            options += [f"--{name}-file", work / name]
    return options


def check_subset(source, store, work, rows, genes):
    out = work / "out.h5ad"
    ok("export", store, "-o", out, "--force", *lists(work, rows, genes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a = opens_in_anndata(source)
        if sp.issparse(a.X):
            a.X = type(a.X)((a.X.data, a.X.indices.astype("i8"), a.X.indptr.astype("i8")), shape=a.X.shape)
        expected = a[slice(None) if rows is None else rows, slice(None) if genes is None else genes].copy()
        same_data(expected, anndata.read_h5ad(out))


def choices(shape):
    """Rows and genes: ascending, and in any order."""
    rng = np.random.default_rng(1)
    n, m = shape
    yield np.sort(rng.permutation(n)[: n // 2]), None
    yield rng.permutation(n)[: n // 3], rng.permutation(m)[: m // 2]
    yield None, np.sort(rng.permutation(m)[: m // 2])


# ---- files ----


def small_files():
    found = [p for p in real_files("accept") if p.stat().st_size < MOST_BYTES and p.name not in EXCUSED and "over_2p31" not in p.name]
    return [pytest.param(p, id=p.name) for p in found] or [pytest.param(None, marks=pytest.mark.skip(reason="H5AD_DIR is not set"))]


@pytest.mark.parametrize("source", small_files())
def test_real_file(source, tmp_path):
    a = opens_in_anndata(source)
    packed = run("pack", source, "-o", tmp_path / "s", "--matrix", "all")
    if a is None or packed.code:
        pytest.skip("anndata does not open it" if a is None else "it does not pack")
    for rows, genes in choices(a.shape):
        check_subset(source, tmp_path / "s", tmp_path, rows, genes)


@pytest.mark.parametrize("form", ["csr", "csc", "dense"])
@pytest.mark.parametrize("dtype", ["f4", "i8", "u2"])
def test_forms(form, dtype, tmp_path):
    x = made_files.counts(n=700, m=50, dtype=dtype, form="csc" if form == "csc" else "csr")
    made_files.write(tmp_path / "a.h5ad", x.toarray() if form == "dense" else x, compression="gzip")
    ok("pack", tmp_path / "a.h5ad", "-o", tmp_path / "s", "--segment-rows", 300)
    for rows, genes in choices((700, 50)):
        check_subset(tmp_path / "a.h5ad", tmp_path / "s", tmp_path, rows, genes)
    for rows, genes in (([], None), (None, []), ([], []), ([5], [7]), (list(range(700))[::-1], list(range(50))[::-1])):
        check_subset(tmp_path / "a.h5ad", tmp_path / "s", tmp_path, rows, genes)


@pytest.fixture(scope="module", params=["X", "all"])
def rich(request, tmp_path_factory):
    work = tmp_path_factory.mktemp("rich")
    made_files.rich(work / "a.h5ad")
    ok("pack", work / "a.h5ad", "-o", work / "s", "--matrix", request.param)
    return work


def test_rich(rich, tmp_path):
    for rows, genes in choices((120, 25)):
        check_subset(rich / "a.h5ad", rich / "s", tmp_path, rows, genes)


# ---- ways to ask ----


def exported(store, work, *options):
    ok("export", store, "-o", work / "out.h5ad", "--force", *options)
    return anndata.read_h5ad(work / "out.h5ad")


def test_rows(rich, tmp_path):
    store, names = rich / "s", opens_in_anndata(rich / "a.h5ad").obs_names
    for options, wanted in (
        (["--rows", "3:7"], [3, 4, 5, 6]),
        (["--rows", "118:"], [118, 119]),
        (["--rows", ":2"], [0, 1]),
        (["--rows", "5:5"], []),
        (["--rows", "100:102", "--rows", "1:3"], [100, 101, 1, 2]),
        (["--rows", "0:10", "--where", "type == 'b'"], [1, 4, 7]),
        (["--rows", "7:10", "--rows", "0:3", "--where", "type != 'b'"], [8, 9, 0, 2]),
        (["--where", "q == 3 and index in ('c2', 'c5', 'c3')"], [2, 5]),
        (["--where", "q is null and type is null"], []),
    ):
        assert list(exported(store, tmp_path, *options).obs_names) == list(names[wanted]), options
    (tmp_path / "rows").write_text("9\r\n\n4\n100")
    assert list(exported(store, tmp_path, "--rows-file", tmp_path / "rows").obs_names) == ["c9", "c4", "c100"]
    (tmp_path / "genes").write_text("g7\n3\ng0\n")
    assert list(exported(store, tmp_path, "--genes-file", tmp_path / "genes").var_names) == ["g7", "g3", "g0"]


def test_categories_stay(rich, tmp_path):
    b = exported(rich / "s", tmp_path, "--where", "type == 'b'")
    assert list(b.obs["type"].cat.categories) == ["a", "b"] and set(b.obs["type"]) == {"b"}


def test_skip(rich, tmp_path):
    b = exported(rich / "s", tmp_path, "--rows", "0:9", "--skip", "obsp/near", "--skip", "/uns/nested/deep", "--skip", "raw")
    assert "near" not in b.obsp and b.uns["nested"] == {} and b.raw is None and "X_pca" in b.obsm


def test_generations(tmp_path):
    for n in (30, 20):
        made_files.write(tmp_path / "a.h5ad", made_files.counts(n=n, m=9))
        ok("pack", tmp_path / "a.h5ad", "-o", tmp_path / "s", "--force")
    assert exported(tmp_path / "s", tmp_path, "--rows", "25:28", "--generation", "1").n_obs == 3
    refused(run("export", tmp_path / "s", "-o", tmp_path / "no.h5ad", "--rows", "25:28"), "25:28")


# ---- what is refused ----


@pytest.mark.parametrize(
    "options, says",
    [
        (["--rows", "119:121"], "119:121 are not in the store, which has 120 cells"),
        (["--rows", "7:3"], "7:3"),
        (["--rows", "0:5", "--rows", "4:6"], "row 4 is asked for twice"),
        (["--where", "typo == 'a'"], "did you mean 'type'"),
        (["--where", "type == "], "it ends where"),
        (["--rows-file", "missing"], "missing"),
        (["--rows-file", "bad_rows"], "line 2 is no row number: 'x'"),
        (["--rows-file", "far_rows"], "line 1 asks for row 120"),
        (["--genes-file", "bad_genes"], "2 of its lines name no gene of the store: 'nobody' (line 1), '25' (line 3)"),
        (["--genes-file", "twice"], "line 2: gene '1' is asked for twice"),
        (["--skip", "obsm/nothing"], "obsm/nothing"),
    ],
)
def test_refused(rich, tmp_path, options, says):
    for name, text in (("bad_rows", "1\nx\n"), ("far_rows", "120\n"), ("bad_genes", "nobody\ng1\n25\n"), ("twice", "g1\n1\n")):
        (tmp_path / name).write_text(text)
    (tmp_path / "work").mkdir()
    options = [tmp_path / o if o in ("missing", "bad_rows", "far_rows", "bad_genes", "twice") else o for o in options]
    message = refused(run("export", rich / "s", "-o", tmp_path / "work/out.h5ad", *options), "")
    assert says in message, message
    assert not list((tmp_path / "work").iterdir())


def test_names_that_two_genes_have(tmp_path):
    made_files.names(tmp_path / "a.h5ad")
    ok("pack", tmp_path / "a.h5ad", "-o", tmp_path / "s")
    names = opens_in_anndata(tmp_path / "a.h5ad").var_names
    repeated = names[names.duplicated()]
    if not len(repeated):
        pytest.skip("no name is repeated")
    (tmp_path / "genes").write_text(f"{repeated[0]}\n")
    assert "several genes are called" in refused(run("export", tmp_path / "s", "-o", tmp_path / "o.h5ad", "--genes-file", tmp_path / "genes"), "genes")


def change_sidecar_file(path, change):
    """The rich file, changed."""
    made_files.rich(path)
    with h5py.File(path, "r+") as f:
        change(f)
    ok("pack", path, "-o", path.parent / "s")
    return path.parent / "s"


def awkward(f):
    g = f["obsm"].create_group("ragged")
    g.attrs.update({"encoding-type": "awkward-array", "encoding-version": "0.1.0"})


def short(f):
    f["obsm/short"] = np.zeros((7, 2))
    f["obsm/short"].attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})


def crossed(f):
    f["obsm/crossed"] = h5py.SoftLink("/varm")


def shared(f):
    f["uns/shared"] = f["obsm/X_pca"]


@pytest.mark.parametrize("change, path", [(awkward, "obsm/ragged"), (short, "obsm/short"), (crossed, "obsm/crossed"), (shared, "")])
def test_what_cannot_be_cut(change, path, tmp_path):
    store = change_sidecar_file(tmp_path / "a.h5ad", change)
    before = set(tmp_path.iterdir())
    message = refused(run("export", store, "-o", tmp_path / "o.h5ad", "--rows", "0:5"), path)
    assert "--skip" in message and set(tmp_path.iterdir()) == before
    skipped = path or message.rsplit(" ", 1)[1]
    ok("export", store, "-o", tmp_path / "o.h5ad", "--rows", "0:5", "--skip", skipped)
    assert anndata.read_h5ad(tmp_path / "o.h5ad").n_obs == 5
    ok("export", store, "-o", tmp_path / "whole.h5ad")


# ---- compression ----


def filters(path, name):
    with h5py.File(path) as f:
        d = f[name]
        return d.chunks, d.compression, d.compression_opts, d.shuffle


@pytest.mark.parametrize("form", ["csr", "csc", "dense"])
@pytest.mark.parametrize("packed_with", [{}, {"compression": "gzip"}, {"compression": "gzip", "shuffle": True}, {"compression": "lzf"}, {"fletcher32": True}])
def test_compression(form, packed_with, tmp_path):
    x = made_files.counts(n=900, m=60, form="csc" if form == "csc" else "csr")
    source = tmp_path / "a.h5ad"
    made_files.write(source, x.toarray() if form == "dense" else x, **packed_with)
    ok("pack", source, "-o", tmp_path / "s")
    name = "X" if form == "dense" else "X/data"
    for kind, expected in (("source", None), ("none", (None, None, None, False)), ("gzip", ("gzip", 4, True)), ("gzip:9", ("gzip", 9, True))):
        outs = []
        for threads in (1, 3):
            outs.append(tmp_path / f"{kind.replace(':', '')}{threads}.h5ad")
            ok("export", tmp_path / "s", "-o", outs[-1], "--compression", kind, "--threads", threads)
            assert ok("convert-check", source, outs[-1]).out.startswith("ok")
        assert outs[0].read_bytes() == outs[1].read_bytes()
        if expected:
            assert filters(outs[0], name)[-len(expected):] == expected
        ok("export", tmp_path / "s", "-o", outs[0], "--force", "--compression", kind, "--rows", "5:890")
        same(opens_in_anndata(source)[5:890].X.copy(), anndata.read_h5ad(outs[0]).X, "X")


@pytest.mark.parametrize("index", ["i4", "i8"])
def test_most_cells_have_no_elements(index, tmp_path):
    """More of them in a row than export looks at together."""
    full = np.array([0, 3, 69_998, 69_999, 139_000, 139_999])
    x = made_files.counts(n=full.size, m=30).tocoo()
    source, out = tmp_path / "a.h5ad", tmp_path / "out.h5ad"
    made_files.write(source, sp.csr_matrix((x.data, (full[x.row], x.col)), shape=(140_000, 30)), index=index)
    ok("pack", source, "-o", tmp_path / "s")
    for kind in ("none", "gzip"):
        ok("export", tmp_path / "s", "-o", out, "--force", "--compression", kind, "--threads", 3)
        assert ok("convert-check", source, out).out.startswith("ok")


def rechunk(path, name, chunk):
    with h5py.File(path, "r+") as f:
        values = f[name][()]
        del f[name]
        f.create_dataset(name, data=values, chunks=(chunk,), compression="gzip", compression_opts=1)


def test_many_chunks(tmp_path):
    """Rows over the ends of chunks and units, of many lengths, and index widths that differ."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 3000, 3000) * (rng.random(3000) < 0.7)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.concatenate([np.sort(rng.permutation(4000)[:n]) for n in lengths]).astype("i4")
    x = sp.csr_matrix((rng.integers(1, 9, indptr[-1]).astype("f4"), indices, indptr), (3000, 4000))
    for index, pointer in (("i4", "i8"), ("i8", "i8"), ("u2", "i4")):
        source = tmp_path / f"{index}.h5ad"
        made_files.write(source, x, index=index, pointer=pointer, compression="gzip", compression_opts=1)
        rechunk(source, "X/data", 7777)
        rechunk(source, "X/indices", 5000)
        ok("pack", source, "-o", tmp_path / index)
        for kind in ("source", "none", "gzip:1"):
            ok("export", tmp_path / index, "-o", tmp_path / "o.h5ad", "--force", "--compression", kind)
            assert ok("convert-check", source, tmp_path / "o.h5ad").out.startswith("ok"), (index, kind)


def test_wrong_usage(tmp_path):
    for options in (["--rows", "5"], ["--rows", "a:b"], ["--compression", "zip"], ["--compression", "gzip:0"], ["--threads", "0"], ["--rows", "0:1", "--rows-file", "x"]):
        result = run("export", "s", "-o", tmp_path / "o.h5ad", *options)
        assert result.code == 2 and options[0] in result.err, str(result)


def test_example(tmp_path):
    ok("pack", EXAMPLE, "-o", tmp_path / "s")
    a = opens_in_anndata(EXAMPLE)
    check_subset(EXAMPLE, tmp_path / "s", tmp_path, np.arange(a.n_obs)[::3], np.arange(a.n_vars)[::-2])


def test_export_tells_how_much(tmp_path):
    """Cells and genes of the file stand in the closing line, also when the predicate left none."""
    store = tmp_path / "s"
    ok("pack", EXAMPLE, "-o", store)
    assert "exported 2,000 cells x 2,400 genes of" in ok("export", store, "-o", tmp_path / "all.h5ad").err
    assert "exported 6 cells x 2,400 genes of" in ok("export", store, "-o", tmp_path / "some.h5ad", "--rows", "3:9").err
    (tmp_path / "genes").write_text("5\n7\n")
    result = ok("export", store, "-o", tmp_path / "none.h5ad", "--where", "n_genes < 0", "--genes-file", tmp_path / "genes")
    assert "exported 0 cells x 2 genes of" in result.err
