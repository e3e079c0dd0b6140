"""Some cells and genes of several parts together, against anndata's concat and its subset."""
import warnings

import anndata as ad
import h5py
import numpy as np
import pandas as pd
import pytest

from support import ok, refused, run
from test_parts import GENES_A, GENES_B, cells
from test_subset import lists

warnings.simplefilter("ignore")


def parts():
    """Three files: genes of two kinds, a column that one lacks, value types that differ, a layer and an array in all of them."""
    a = cells(1, 70, GENES_A, ["B", "T", "NK"], batch=lambda n: np.arange(n, dtype="i2"), only_a=lambda n: np.arange(n, dtype="i8"))
    b = cells(2, 50, GENES_B, ["T", "mono", "B"], dtype="i4", batch=lambda n: np.arange(n, dtype="u4"))
    c = cells(3, 30, GENES_A, ["B"], batch=lambda n: np.arange(n, dtype="i2"))
    for x in (a, b, c):
        x.layers["twice"] = x.X.astype("f4") * 2
        x.obsm["X_pca"] = np.random.default_rng(x.n_obs).random((x.n_obs, 4)).astype("f4")
        x.obs["flag"] = np.arange(x.n_obs) % 2 == 0
    return a, b, c


@pytest.fixture(scope="module", params=["inner", "outer"])
def joined(request, tmp_path_factory):
    work = tmp_path_factory.mktemp("joined")
    files = []
    for name, x in zip("abc", parts()):
        files.append(work / f"{name}.h5ad")
        x.write_h5ad(files[-1])
    ok("pack", *files, "-o", work / "s", "--join", request.param, "--matrix", "all", "--segment-rows", 40)
    both = ad.concat(parts(), join=request.param, fill_value=0)
    both.obs = ad.concat(parts(), join="outer", fill_value=0).obs  # a store keeps columns that some parts lack
    ok("export", work / "s", "-o", work / "all.h5ad")
    return work, both[:, ad.read_h5ad(work / "all.h5ad").var_names].copy()


def values(column):
    return [None if pd.isna(v) else v for v in column]


def check(found, want):
    assert list(found.obs_names) == list(want.obs_names) and list(found.var_names) == list(want.var_names)
    for a, b in ((found.X, want.X), (found.layers["twice"], want.layers["twice"])):
        assert a.shape == b.shape and a.nnz == np.count_nonzero(b.toarray()) and a.has_sorted_indices
        assert np.array_equal(a.toarray(), b.toarray())
    assert found.obsm["X_pca"].dtype == "f4" and np.array_equal(found.obsm["X_pca"], want.obsm["X_pca"])
    assert set(found.obs) == set(want.obs)
    for name in want.obs:
        assert values(found.obs[name]) == values(want.obs[name]), name


def exported(work, out, *options):
    ok("export", work / "s", "-o", out / "out.h5ad", "--force", *options)
    return ad.read_h5ad(out / "out.h5ad")


def choices(shape):
    """Over the ends of parts, ascending and in any order; none; all."""
    rng = np.random.default_rng(4)
    n, m = shape
    yield np.sort(rng.permutation(n)[: n // 2]), None
    yield rng.permutation(n), rng.permutation(m)[: m // 2]
    yield None, np.sort(rng.permutation(m)[: m // 3])
    yield [], None
    yield None, []
    yield [n - 1, 0], [m - 1]


def test_subset(joined, tmp_path):
    work, both = joined
    for rows, genes in choices(both.shape):
        found = exported(work, tmp_path, *lists(tmp_path, rows, genes))
        check(found, both[slice(None) if rows is None else list(rows), slice(None) if genes is None else list(genes)].copy())


def test_ways_to_ask(joined, tmp_path):
    work, both = joined
    check(exported(work, tmp_path, "--rows", "60:80", "--rows", "140:", "--rows", "0:3"), both[[*range(60, 80), *range(140, 150), 0, 1, 2]].copy())
    check(exported(work, tmp_path, "--where", "label == 'B' and flag"), both[(both.obs["label"] == "B") & both.obs["flag"]].copy())
    names = [both.var_names[-1], both.var_names[3]]
    (tmp_path / "genes").write_text("".join(f"{g}\n" for g in names))
    found = exported(work, tmp_path, "--rows", "69:71", "--where", "batch < 70", "--genes-file", tmp_path / "genes")
    check(found, both[69:71, names].copy())
    assert list(found.obs["label"].cat.categories) == ["B", "T", "NK", "mono"]  # also those no longer used


def test_all_rows_named_is_the_whole(joined, tmp_path):
    work, both = joined
    ok("export", work / "s", "-o", tmp_path / "out.h5ad", "--rows", f"0:{both.n_obs}")
    assert (tmp_path / "out.h5ad").read_bytes() == (work / "all.h5ad").read_bytes()


@pytest.mark.parametrize("options", [(), ("--rows", "10:140")], ids=["whole", "subset"])
def test_compression(joined, tmp_path, options):
    work, both = joined
    want = both[10:140].copy() if options else both
    outs = []
    for threads in (1, 3):
        check(exported(work, tmp_path, "--compression", "gzip:6", "--threads", threads, *options), want)
        outs.append((tmp_path / "out.h5ad").read_bytes())
    assert outs[0] == outs[1]
    with h5py.File(tmp_path / "out.h5ad") as f:
        for name in ("X/data", "X/indices", "layers/twice/data", "obsm/X_pca"):
            assert (f[name].compression, f[name].compression_opts, f[name].shuffle) == ("gzip", 6, True), name
    check(exported(work, tmp_path, "--compression", "none", *options), want)


def test_skip(joined, tmp_path):
    work, both = joined
    found = exported(work, tmp_path, "--skip", "obsm/X_pca", "--skip", "/layers/twice", "--skip", "obs/only_a")
    assert not found.obsm and not found.layers and set(found.obs) == set(both.obs) - {"only_a"}
    assert np.array_equal(found.X.toarray(), both.X.toarray())


@pytest.mark.parametrize(
    "options, says",
    [
        (["--rows", "149:151"], "149:151 are not in the store, which has 150 cells"),
        (["--rows", "0:5", "--rows", "4:6"], "row 4 is asked for twice"),
        (["--where", "typo == 'a'"], "typo"),
        (["--genes-file", "genes"], "name no gene of the store: 'nobody' (line 1)"),
        (["--skip", "uns/x"], "has no 'uns/x' that could be left out"),
        (["--skip", "obs"], "has no 'obs' that could be left out"),
    ],
)
def test_refused(joined, tmp_path, options, says):
    (tmp_path / "genes").write_text("nobody\n")
    (tmp_path / "work").mkdir()
    options = [tmp_path / o if o == "genes" else o for o in options]
    message = refused(run("export", joined[0] / "s", "-o", tmp_path / "work/out.h5ad", *options), "")
    assert says in message, message
    assert not list((tmp_path / "work").iterdir())
