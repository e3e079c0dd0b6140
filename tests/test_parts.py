"""Several files in one store: joined genes and columns against anndata.concat, appending, races and full disks."""
import os
import resource
import shutil
import signal
import subprocess
import time
import warnings

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import support
from support import fetch_csr, fetch_dense, ok, run, tree

ad = pytest.importorskip("anndata")
warnings.simplefilter("ignore")


def cells(seed, n, genes, categories, dtype="f4", form=sp.csr_matrix, ordered=False, **columns):
    """n cells whose values are whole numbers; some cells have no label."""
    rng = np.random.default_rng(seed)
    x = rng.poisson(0.5, (n, len(genes))).astype(dtype)
    codes = rng.integers(-1, len(categories), n)
    obs = pd.DataFrame(
        {
            "label": pd.Categorical.from_codes(codes, categories, ordered=ordered),
            "score": rng.random(n).astype("f4"),
            "note": [f"c{i % 5}" for i in range(n)],
            **{k: v(n) for k, v in columns.items()},
        },
        index=[f"s{seed}_{i}" for i in range(n)],
    )
    var = pd.DataFrame({"id": [f"id_{g}" for g in genes]}, index=list(genes))
    return ad.AnnData(form(x) if form else x, obs=obs, var=var)


GENES_A = [f"g{i}" for i in range(60)]
GENES_B = [f"g{i}" for i in range(80, 20, -1)] + ["extra"]


@pytest.fixture
def two(tmp_path):
    a = cells(1, 70, GENES_A, ["B", "T", "NK"], batch=lambda n: np.arange(n, dtype="i2"), only_a=lambda n: np.arange(n, dtype="i8"))
    b = cells(2, 50, GENES_B, ["T", "mono", "B"], dtype="i4", form=sp.csc_matrix, batch=lambda n: np.arange(n, dtype="u4"))
    a.write_h5ad(tmp_path / "a.h5ad")
    b.write_h5ad(tmp_path / "b.h5ad")
    return a, b


def names(store, axis):
    return [v.decode() for column in [c for (a, _), c in support.columns(store, "joint").items() if a == axis and c.is_index] for v in column.values]


def check_x(store, expected):
    """All rows in a shuffled order, sparse and dense, against a matrix over the store's genes."""
    rows = np.random.default_rng(0).permutation(expected.shape[0])
    x = np.asarray(expected.todense() if sp.issparse(expected) else expected)[rows]
    assert np.array_equal(fetch_dense(store, "X", rows), x)
    indptr, indices, values = fetch_csr(store, "X", rows)
    assert np.array_equal(sp.csr_matrix((values, indices, indptr), x.shape).todense(), x)
    assert np.array_equal(np.diff(indptr), (x != 0).sum(1))


def check_obs(store, expected):
    """Columns that anndata.concat has too: values by name, and categories in order of first appearance."""
    found = support.columns(store, "joint")
    assert names(store, "obs") == list(expected.index)
    for name in expected:
        column, want = found["obs", name], expected[name]
        if column.kind == "categorical":
            assert [v and v.decode() for v in column.values] == [None if pd.isna(v) else str(v) for v in want], name
        elif column.kind == "string":
            assert [v and v.decode() for v in column.values] == [None if pd.isna(v) else v for v in want], name
        else:
            dtype = support.DTYPE_NAMES[column.dtype]
            got = [None if v is None else np.frombuffer(v, dtype)[0] for v in column.values]
            assert [float(v) if v is not None else None for v in got] == [None if pd.isna(v) else float(v) for v in want], name
    return found


@pytest.mark.parametrize("join", ["inner", "outer"])
def test_joined(two, tmp_path, join):
    result = ok("pack", tmp_path / "a.h5ad", tmp_path / "b.h5ad", "-o", tmp_path / "s", "--join", join)
    reference = ad.concat(two, join=join, fill_value=0)
    genes = names(tmp_path / "s", "var")
    assert sorted(genes) == sorted(reference.var_names)
    in_order = [g for g in GENES_A if g in GENES_B] if join == "inner" else GENES_A + [g for g in GENES_B if g not in GENES_A]
    assert genes == in_order
    check_x(tmp_path / "s", reference[:, genes].X)
    found = check_obs(tmp_path / "s", ad.concat(two, join="outer", fill_value=0).obs)
    assert found["obs", "label"].categories == [b"B", b"T", b"NK", b"mono"]
    assert found["obs", "batch"].dtype == "i64" and found["obs", "only_a"].values[-1] is None
    assert "are not among the store's" in result.err if join == "inner" else "has no values for" in result.err
    assert "readers deliver f64" in result.err
    ok("verify", tmp_path / "s")
    report = support.info(tmp_path / "s")
    assert report["n_obs"] == 120 and report["parts"] == 2 and report["n_vars"] == len(genes)
    ok("head", tmp_path / "s", "-n", 120)


def test_info_of_parts(two, tmp_path):
    """Elements of genes that were left out are not counted as if they came; parts are listed."""
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    for join, store in (("inner", inner), ("outer", outer)):
        ok("pack", tmp_path / "a.h5ad", tmp_path / "b.h5ad", "-o", store, "--join", join, "--shuffle", 3)
    report = support.info(inner)
    assert report["nnz_exact"] is False and report["density"] is None and report["matrices"][0]["nnz_exact"] is False
    assert report["nnz"] == sum(part.X.nnz for part in two) > ad.concat(two, join="inner").X.nnz
    assert report["part_list"] == [
        {"first_row": 0, "n_obs": 70, "n_vars": 60, "shuffled": True}, {"first_row": 70, "n_obs": 50, "n_vars": 61, "shuffled": True}]
    text = ok("info", inner).out
    assert f"at most {report['nnz']:,}" in text and "elements of genes that the store has not" in text
    assert any(line.split() == ["1", "70", "50", "61", "shuffled"] for line in text.splitlines())
    report, text = support.info(outer), ok("info", outer).out
    assert report["nnz_exact"] is True and report["matrices"][0]["nnz_exact"] is True and "at most" not in text
    assert report["density"] == pytest.approx(report["nnz"] / (120 * 82))


def test_same_genes_need_no_join(two, tmp_path):
    a = two[0]
    c = cells(3, 30, GENES_A, ["x"])
    c.write_h5ad(tmp_path / "c.h5ad")
    ok("pack", tmp_path / "a.h5ad", tmp_path / "c.h5ad", "-o", tmp_path / "s")
    both = ad.concat([a, c], join="outer")
    check_x(tmp_path / "s", both.X)
    check_obs(tmp_path / "s", both.obs)
    ok("verify", tmp_path / "s")


def test_other_genes_are_refused(two, tmp_path):
    for more in [(), ("--join-key", "id")]:
        message = support.refused(run("pack", tmp_path / "a.h5ad", tmp_path / "b.h5ad", "-o", tmp_path / "s", *more), "b.h5ad")
        assert "61 and 60, of which 39 have the same name" in message and "--join inner" in message and "--join outer" in message
        assert not (tmp_path / "s").exists()
    two[0][:, ::-1].copy().write_h5ad(tmp_path / "r.h5ad")
    assert "in another order" in support.refused(run("pack", tmp_path / "a.h5ad", tmp_path / "r.h5ad", "-o", tmp_path / "s"), "r.h5ad")
    ok("pack", tmp_path / "a.h5ad", tmp_path / "r.h5ad", "-o", tmp_path / "s", "--join", "inner")
    check_x(tmp_path / "s", sp.vstack([two[0].X, two[0].X]))


def test_join_key(two, tmp_path):
    a, b = two
    b.var_names = [f"name{i}" for i in range(b.n_vars)]
    b.write_h5ad(tmp_path / "b.h5ad")
    assert "no gene is in all" in support.refused(run("pack", tmp_path / "a.h5ad", tmp_path / "b.h5ad", "-o", tmp_path / "s", "--join", "inner"), "")
    ok("pack", tmp_path / "a.h5ad", tmp_path / "b.h5ad", "-o", tmp_path / "s", "--join", "outer", "--join-key", "id")
    found = support.columns(tmp_path / "s", "joint")
    ids = [v.decode() for v in found["var", "id"].values]
    assert names(tmp_path / "s", "var")[:60] == GENES_A and len(ids) == 82
    a.var_names, b.var_names = a.var["id"], b.var["id"]
    check_x(tmp_path / "s", ad.concat([a, b], join="outer", fill_value=0)[:, ids].X)
    ok("verify", tmp_path / "s")
    assert "has no column 'nothing' in var" in support.refused(
        run("pack", tmp_path / "a.h5ad", tmp_path / "b.h5ad", "-o", tmp_path / "t", "--join", "outer", "--join-key", "nothing"), "a.h5ad")


def test_duplicates(two, tmp_path):
    a, b = two
    genes = list(b.var_names)
    genes[3] = genes[5] = "g7"
    b.var_names = genes
    b.obs_names = ["s1_0", "s1_1"] + list(b.obs_names[2:])
    b.write_h5ad(tmp_path / "b.h5ad")
    command = ["pack", tmp_path / "a.h5ad", tmp_path / "b.h5ad", "-o", tmp_path / "s", "--join", "outer"]
    assert "'g7' occurs more than once" in support.refused(run(*command), "b.h5ad")
    result = ok(*command, "--allow-duplicate-genes")
    assert "2 names of cells occur more than once" in result.err
    joined = names(tmp_path / "s", "var")
    assert joined.count("g7") == 2
    rows = np.arange(70, 120)
    x = fetch_dense(tmp_path / "s", "X", rows)
    assert np.array_equal(x[:, 7], np.asarray(b.X[:, 3].todense()).ravel())  # the first g7 with the first
    assert np.array_equal(x[:, [i for i, g in enumerate(joined) if g == "g7"][1]], np.asarray(b.X[:, 5].todense()).ravel())
    ok("verify", tmp_path / "s")


def test_clashes_are_reported(tmp_path):
    a = cells(1, 20, GENES_A, ["low", "mid", "high"], ordered=True, kind=lambda n: ["x"] * n, when=lambda n: np.arange(n, dtype="i8"))
    b = cells(2, 20, GENES_A, ["high", "low"], ordered=True, kind=lambda n: np.arange(n), when=lambda n: np.arange(n, dtype="f4"))
    for name, file in [("a", a), ("b", b)]:
        file.write_h5ad(tmp_path / f"{name}.h5ad")
    result = ok("pack", tmp_path / "a.h5ad", tmp_path / "b.h5ad", "-o", tmp_path / "s")
    found = support.columns(tmp_path / "s", "joint")
    assert ("obs", "kind") not in found and ("obs", "when") not in found
    assert "'kind' has strings and numbers" in result.err.replace("categories", "strings") and "'when' has values of i64 and f32" in result.err
    assert "orders that contradict each other" in result.err
    assert not found["obs", "label"].ordered and found["obs", "label"].categories == [b"low", b"mid", b"high"]
    assert [v and v.decode() for v in found["obs", "label"].values] == [None if pd.isna(v) else v for v in list(a.obs["label"]) + list(b.obs["label"])]


def test_matrices_that_do_not_fit(two, tmp_path):
    """With 'all' they stay in the sidecars; asked for by name they are refused before anything is packed."""
    a, b = two
    for x, width in [(a, 5), (b, 7)]:
        x.raw = x.copy()
        x.obsm["X_pca"] = np.ones((x.n_obs, width), "f4")
        x.obsm["X_umap"] = np.ones((x.n_obs, 2), "f4") * width
    a.write_h5ad(tmp_path / "a.h5ad")
    b.write_h5ad(tmp_path / "b.h5ad")
    store, inputs = tmp_path / "s", [tmp_path / "a.h5ad", tmp_path / "b.h5ad"]
    for name, file in [("raw/X", "a.h5ad"), ("obsm/X_pca", "b.h5ad")]:
        assert "cannot be one matrix" in support.refused(run("pack", *inputs, "-o", store, "--join", "outer", "--matrix", name), file)
        assert not store.exists()
    result = ok("pack", *inputs, "-o", store, "--join", "outer", "--matrix", "all")
    assert "3 matrices can not be packed" in result.err
    assert "obsm/X_pca is in 1 of 2 parts" in result.err
    assert set(support.info(store)["dtypes"]) == {"X", "obsm/X_pca", "obsm/X_umap"}
    assert np.array_equal(fetch_dense(store, "obsm/X_umap", [0, 100]), [[5, 5], [7, 7]])
    assert np.array_equal(fetch_dense(store, "obsm/X_pca", [3]), np.ones((1, 5)))
    ok("head", store, "-n", 120)
    ok("verify", store)
    for part, source in enumerate(inputs):
        ok("export", store, "--part", part, "-o", tmp_path / "out.h5ad", "--force")
        ok("convert-check", source, tmp_path / "out.h5ad")
    ok("export", store, "-o", tmp_path / "all.h5ad")
    assert list(ad.read_h5ad(tmp_path / "all.h5ad").obsm) == ["X_umap"]


def generations(store):
    return sorted(int(p.stem) for p in (store / "manifests").iterdir())


@pytest.mark.parametrize("join", ["inner", "outer"])
def test_append(two, tmp_path, join):
    a, b = two
    c = cells(3, 30, GENES_A, ["new", "B"])
    c.write_h5ad(tmp_path / "c.h5ad")
    store = tmp_path / "s"
    ok("pack", tmp_path / "a.h5ad", "-o", store)
    before = tree(store)
    ok("append", store, tmp_path / "c.h5ad")
    middle = tree(store)
    assert all(middle[k] == v for k, v in before.items())
    assert "--join inner" in support.refused(run("append", store, tmp_path / "b.h5ad"), "b.h5ad")
    assert tree(store) == middle
    ok("append", store, tmp_path / "b.h5ad", "--join", join)
    after = tree(store)
    assert all(after[k] == v for k, v in middle.items()) and generations(store) == [1, 2, 3]
    everything = ad.concat([a, c, b], join="outer", fill_value=0)
    genes = GENES_A if join == "inner" else GENES_A + [g for g in GENES_B if g not in GENES_A]
    assert names(store, "var") == genes
    check_x(store, everything[:, genes].X)
    found = check_obs(store, everything.obs)
    assert found["obs", "label"].categories == [b"B", b"T", b"NK", b"new", b"mono"]
    ok("verify", store)
    ok("export", store, "-o", tmp_path / "old.h5ad", "--generation", 1)
    ok("convert-check", tmp_path / "a.h5ad", tmp_path / "old.h5ad")


def test_append_brings_dropped_genes_back(two, tmp_path):
    """Genes that an inner join left out of the store are there again once an outer append adds them."""
    a, b = two
    store = tmp_path / "s"
    ok("pack", tmp_path / "a.h5ad", tmp_path / "b.h5ad", "-o", store, "--join", "inner")
    c = cells(3, 10, GENES_A[:5] + ["extra", "brand_new"], ["B"])
    c.write_h5ad(tmp_path / "c.h5ad")
    ok("append", store, tmp_path / "c.h5ad", "--join", "outer")
    genes = names(store, "var")
    assert genes == [g for g in GENES_A if g in GENES_B] + GENES_A[:5] + ["extra", "brand_new"]
    check_x(store, ad.concat([a, b, c], join="outer", fill_value=0)[:, genes].X)
    ok("verify", store)


def test_append_takes_the_matrices_of_the_store(two, tmp_path):
    """Without --matrix: those that all parts have, and a file without one of them is refused."""
    a = two[0]
    a.raw = a.copy()
    a.layers["counts"] = a.X * 2
    a.write_h5ad(tmp_path / "a.h5ad")
    store, lacking = tmp_path / "s", tmp_path / "lacking.h5ad"
    ok("pack", tmp_path / "a.h5ad", "-o", store, "--matrix", "all")
    assert set(support.info(store)["dtypes"]) == {"X", "layers/counts", "raw/X"}
    ok("append", store, tmp_path / "a.h5ad")
    report = {m["name"]: m["nnz"] for m in support.info(store)["matrices"]}
    assert report == {"X": 2 * a.X.nnz, "layers/counts": 2 * a.X.nnz, "raw/X": a.X.nnz}
    assert np.array_equal(fetch_dense(store, "layers/counts", [3, 73]), np.asarray(a.layers["counts"][[3, 3]].todense()))
    del a.layers["counts"]
    a.write_h5ad(lacking)
    message = support.refused(run("append", store, lacking), "lacking.h5ad")
    assert "no matrix 'layers/counts'" in message and "the store has it" in message
    assert support.info(store)["generation"] == 2
    ok("append", store, lacking, "--matrix", "X")
    ok("append", store, lacking)  # not all parts have the layer now
    assert support.info(store)["n_obs"] == 280
    ok("verify", store)


def test_append_needs_a_store(two, tmp_path):
    assert "does not exist" in support.refused(run("append", tmp_path / "none", tmp_path / "a.h5ad"), "none")
    assert "does not exist" in support.refused(run("annotate", tmp_path / "none", "--from", tmp_path / "a.h5ad"), "none")
    assert "is not a directory" in support.refused(run("append", tmp_path / "a.h5ad", tmp_path / "b.h5ad"), "a.h5ad")
    assert not (tmp_path / "none").exists()
    assert run("append", tmp_path / "none").code == 2


def test_one_bad_input_of_several(two, tmp_path):
    store = tmp_path / "s"
    (tmp_path / "bad.h5ad").write_bytes((tmp_path / "b.h5ad").read_bytes()[:3000])
    support.refused(run("pack", tmp_path / "a.h5ad", tmp_path / "bad.h5ad", "-o", store), "bad.h5ad")
    support.refused(run("pack", tmp_path / "a.h5ad", tmp_path / "missing.h5ad", "-o", store), "missing.h5ad")
    assert not store.exists()
    ok("pack", tmp_path / "a.h5ad", "-o", store)
    before = tree(store)
    support.refused(run("append", store, tmp_path / "a.h5ad", tmp_path / "bad.h5ad"), "bad.h5ad")
    assert tree(store) == before


def test_the_same_file_twice(two, tmp_path):
    result = ok("pack", tmp_path / "a.h5ad", tmp_path / "a.h5ad", "-o", tmp_path / "s")
    assert "70 names of cells occur more than once" in result.err
    check_x(tmp_path / "s", sp.vstack([two[0].X, two[0].X]))
    ok("verify", tmp_path / "s")


def test_concurrent_appends(two, tmp_path):
    """Whoever is last adds to what the others made: all parts are in."""
    store, n = tmp_path / "s", 6
    ok("pack", tmp_path / "a.h5ad", "-o", store)
    for i in range(n):
        cells(10 + i, 20 + i, GENES_A, [f"k{i}", "B"]).write_h5ad(tmp_path / f"c{i}.h5ad")
    running = [subprocess.Popen([support.CLI, "append", store, tmp_path / f"c{i}.h5ad"], stderr=subprocess.PIPE) for i in range(n)]
    for p in running:
        _, err = p.communicate(timeout=60)
        assert p.returncode == 0, err.decode()
    assert generations(store) == list(range(1, n + 2))
    report = support.info(store)
    assert report["parts"] == n + 1 and report["n_obs"] == 70 + sum(20 + i for i in range(n))
    found = names(store, "obs")
    assert len(found) == report["n_obs"] and {f"s{10 + i}_0" for i in range(n)} <= set(found)
    by_name = {name: x for i in range(n) for name, x in zip(*(lambda f: (f.obs_names, np.asarray(f.X.todense())))(cells(10 + i, 20 + i, GENES_A, [f"k{i}", "B"])))}
    x = fetch_dense(store, "X", range(len(found)))
    assert all(np.array_equal(x[i], by_name[name]) for i, name in enumerate(found) if name in by_name)
    ok("verify", store)
    assert not list((store / "tmp").iterdir())


def test_killed_append(two, tmp_path):
    """kill -9 at many moments: the old generation or the new one, and the next append cleans up."""
    store = tmp_path / "s"
    ok("pack", tmp_path / "a.h5ad", "-o", store)
    before = tree(store)
    cells(5, 3000, GENES_A, ["z"]).write_h5ad(tmp_path / "c.h5ad")
    copy = tmp_path / "copy"
    for i in range(12):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(store, copy)
        p = subprocess.Popen([support.CLI, "append", copy, tmp_path / "c.h5ad"], stderr=subprocess.DEVNULL, preexec_fn=support.heed_signals)
        time.sleep(0.004 * i)
        p.send_signal(signal.SIGKILL)
        p.wait()
        assert all((copy / k).read_bytes() == v for k, v in before.items())
        assert support.info(copy)["n_obs"] in (70, 3070)
        ok("append", copy, tmp_path / "c.h5ad")
        assert not list((copy / "tmp").iterdir())
        ok("verify", copy)


def test_full_disk(two, tmp_path):
    """A limit on file sizes at every size that occurs: an error, and nothing is left."""
    store = tmp_path / "s"
    ok("pack", tmp_path / "a.h5ad", "-o", store)
    before = tree(store)
    for limit in (100, 3000, 6000, 10000):
        result = run("append", store, tmp_path / "b.h5ad", "--join", "outer", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        assert result.code == 1, str(result)
        assert tree(store) == before and not list((store / "tmp").iterdir())


def test_bytes_do_not_depend_on_threads(two, tmp_path):
    for name, threads in [("s", 1), ("t", 4)]:
        ok("pack", tmp_path / "a.h5ad", tmp_path / "b.h5ad", "-o", tmp_path / name, "--join", "outer", "--threads", threads)
    assert tree(tmp_path / "s") == tree(tmp_path / "t")


@pytest.mark.parametrize("join", ["inner", "outer"])
def test_export_of_a_part(two, tmp_path, join):
    """Each source as it was, whatever the store made of its genes, categories and value types."""
    store = tmp_path / "s"
    ok("pack", tmp_path / "a.h5ad", tmp_path / "b.h5ad", tmp_path / "a.h5ad", "-o", store, "--join", join)
    for part, source in enumerate(["a", "b", "a"]):
        ok("export", store, "--part", part, "-o", tmp_path / "out.h5ad", "--force")
        ok("convert-check", tmp_path / f"{source}.h5ad", tmp_path / "out.h5ad")
    assert "no part 3" in support.refused(run("export", store, "--part", 3, "-o", tmp_path / "x.h5ad"), "s")
    assert not (tmp_path / "x.h5ad").exists()


@pytest.mark.parametrize("join", ["inner", "outer"])
def test_export_of_all_parts(two, tmp_path, join):
    """One file, equal to what anndata.concat makes, and it can be packed again."""
    a, b = two
    for x, scale in [(a, 1), (b, 2)]:
        x.layers["twice"] = x.X.astype("f4") * 2
        x.obsm["X_pca"] = np.arange(x.n_obs * 4, dtype="f4").reshape(-1, 4) * scale
        x.obs["flag"] = np.arange(x.n_obs) % 2 == 0
        x.obs["day"] = pd.Categorical(np.arange(x.n_obs) % 3 * scale)
    a.obs["only_text"] = [f"t{i}" for i in range(a.n_obs)]
    a.obs["only_flag"] = True
    a.obs["only_float"] = np.float32(1.5)
    a.obsm["only_a"] = np.zeros((a.n_obs, 2))
    a.write_h5ad(tmp_path / "a.h5ad")
    b.write_h5ad(tmp_path / "b.h5ad")
    store, out = tmp_path / "s", tmp_path / "out.h5ad"
    ok("pack", tmp_path / "a.h5ad", tmp_path / "b.h5ad", "-o", store, "--join", join, "--matrix", "all")
    ok("export", store, "-o", out)
    found, want = ad.read_h5ad(out), ad.concat([a, b], join=join, fill_value=0)
    want = want[:, found.var_names]
    assert list(found.obs_names) == list(want.obs_names) and found.shape == want.shape
    assert np.array_equal(found.X.todense(), want.X.todense()) and np.array_equal(found.layers["twice"].todense(), want.layers["twice"].todense())
    assert np.array_equal(found.obsm["X_pca"], np.concatenate([a.obsm["X_pca"], b.obsm["X_pca"]])) and "only_a" not in found.obsm
    obs = ad.concat([a, b], join="outer", fill_value=0).obs
    assert set(found.obs) == set(obs)
    for name in obs:
        assert [None if pd.isna(v) else v for v in found.obs[name]] == [None if pd.isna(v) else v for v in obs[name]], name
    assert list(found.obs["label"].cat.categories) == ["B", "T", "NK", "mono"] and list(found.obs["day"].cat.categories) == [0, 1, 2, 4]
    assert str(found.obs["batch"].dtype) == "int64" and str(found.obs["only_a"].dtype) == "Int64" and str(found.obs["only_float"].dtype) == "float32"
    ok("pack", out, "-o", tmp_path / "again")
    check_x(tmp_path / "again", want.X)
    before = out.read_bytes()
    ok("export", store, "-o", out, "--force")
    assert out.read_bytes() == before


def test_export_of_all_parts_needs_room(two, tmp_path):
    store = tmp_path / "s"
    ok("pack", tmp_path / "a.h5ad", tmp_path / "b.h5ad", "-o", store, "--join", "outer")
    for limit in (100, 3000, 6000, 10000):
        result = run("export", store, "-o", tmp_path / "out.h5ad", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        assert result.code == 1 and not [p for p in tmp_path.iterdir() if "out" in p.name], str(result)


@pytest.mark.skipif(not support.real_files("accept"), reason="H5AD_DIR is not set")
def test_real_files_side_by_side(tmp_path):
    """Two real files in one store, both exported as they were."""
    small = [p for p in support.real_files("accept") if p.suffix == ".h5ad" and 20_000 < p.stat().st_size < 2_000_000 and p.name not in support.listed("not_yet.txt")]
    packed = 0
    for first, second in list(zip(small[::4], small[1::4]))[:20]:
        shutil.rmtree(tmp_path / "s", ignore_errors=True)
        result = run("pack", first, second, "-o", tmp_path / "s", "--join", "outer", "--allow-duplicate-genes")
        if result.code:
            assert len([x for x in result.err.splitlines() if "note:" not in x]) == 1, str(result)
            continue
        packed += 1
        ok("verify", tmp_path / "s")
        for part, source in enumerate([first, second]):
            ok("export", tmp_path / "s", "--part", part, "-o", tmp_path / "out.h5ad", "--force")
            ok("convert-check", source, tmp_path / "out.h5ad")
    assert packed >= 10


def with_categories(path, values, codes):
    """A file whose column `c` has those categories, whatever pandas says of them."""
    cells(1, len(codes), ["g"], ["a"]).write_h5ad(path)
    text = isinstance(values[0], str)
    with h5py.File(path, "r+") as f:
        group = f["obs/label"]
        del group["categories"], group["codes"]
        group["categories"] = np.array(values, h5py.string_dtype()) if text else np.array(values)
        group["categories"].attrs.update({"encoding-type": "string-array" if text else "array", "encoding-version": "0.2.0"})
        group["codes"] = np.array(codes, "i1")
        group["codes"].attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})


@pytest.mark.parametrize(
    "first, second, union, codes",
    [
        ([-0.0, 1.5], [1.5, 0.0, 2.0], [-0.0, 1.5, 2.0], [0, 1, 0, -1, 1, 0, 2, 0]),
        ([-0.0], [0.0, 1.5, 2.0], [0.0, 1.5, 2.0], [0, 0, 0, -1, 0, 1, 2, 1]),
        ([1.5, 0.0, -0.0], [-0.0, 2.0, 2.5], [1.5, 0.0, 2.0, 2.5], [0, 1, 1, -1, 1, 2, 3, 2]),
        (["x", "y", "x"], ["y", "x", "z"], ["x", "y", "z"], [0, 1, 0, -1, 1, 0, 2, 0]),
        (["x", "y"], ["y", "x", "y"], ["x", "y"], [0, 1, 0, -1, 1, 0, 1, 0]),
    ],
)
def test_categories_that_are_one(first, second, union, codes, tmp_path):
    """Zeros of both signs and repeated names: once in the store, one code; in the part as ever."""
    with_categories(tmp_path / "a.h5ad", first, [0, 1 % len(first), 2 % len(first), -1])
    with_categories(tmp_path / "b.h5ad", second, [0, 1, 2, 1])
    ok("pack", tmp_path / "a.h5ad", tmp_path / "b.h5ad", "-o", tmp_path / "s")
    ok("verify", tmp_path / "s")
    ok("export", tmp_path / "s", "-o", tmp_path / "o.h5ad")
    with h5py.File(tmp_path / "o.h5ad") as f:
        group = f["obs/label"]
        assert list(group["codes"]) == codes
        if isinstance(union[0], str):
            assert list(group["categories"].asstr()) == union
        else:
            assert group["categories"][:].tobytes() == np.array(union).tobytes()
    assert list(ad.read_h5ad(tmp_path / "o.h5ad").obs["label"].cat.categories) == union
    for k, name in enumerate("ab"):
        ok("export", tmp_path / "s", "-o", tmp_path / "part.h5ad", "--part", k, "--force")
        ok("convert-check", tmp_path / f"{name}.h5ad", tmp_path / "part.h5ad")


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_a_file_without_cells(two, tmp_path, order):
    """Its columns of text, which anndata would have written as categories, take none from the others; nothing is missing for it."""
    a, _ = two
    a.obs["text"] = pd.array([f"t{i}" for i in range(a.n_obs)], dtype=object)
    a.obs["note"] = a.obs["note"].astype("category")
    a.write_h5ad(tmp_path / "a.h5ad", convert_strings_to_categoricals=False)
    empty = a[:0].copy()
    empty.obs = empty.obs.astype({"note": object})
    empty.write_h5ad(tmp_path / "b.h5ad", convert_strings_to_categoricals=False)
    with h5py.File(tmp_path / "b.h5ad") as f:
        assert f["obs/note"].shape == (0,) and h5py.check_string_dtype(f["obs/note"].dtype)
    ok("pack", *(tmp_path / f"{f}.h5ad" for f in order), "-o", tmp_path / "s")
    joint = support.columns(tmp_path / "s", "joint")
    assert [v.decode() for v in joint["obs", "note"].values] == list(a.obs["note"])
    assert [v.decode() for v in joint["obs", "text"].values] == list(a.obs["text"])
    ok("verify", tmp_path / "s")
    ok("export", tmp_path / "s", "--part", str(order.index("b")), "-o", tmp_path / "again.h5ad")
    ok("convert-check", tmp_path / "b.h5ad", tmp_path / "again.h5ad")
    ok("export", tmp_path / "s", "-o", tmp_path / "all.h5ad")
    pd.testing.assert_series_equal(ad.read_h5ad(tmp_path / "all.h5ad").obs["text"], ad.read_h5ad(tmp_path / "a.h5ad").obs["text"])
