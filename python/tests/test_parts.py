"""Stores of several parts read as one table."""

import warnings

import annblock
import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp


def make(n, seed, categories, genes=40, extra=False):
    rng = np.random.default_rng(seed)
    x = sp.random(n, genes, 0.3, "csr", np.float32, rng)
    x.data = rng.integers(1, 9, x.nnz).astype(np.float32)
    line = pd.Categorical(rng.choice(categories, n), categories=categories)
    line = pd.Categorical.from_codes(np.where(rng.random(n) < 0.1, -1, line.codes), dtype=line.dtype)
    obs = pd.DataFrame(
        {"line": line, "depth": rng.random(n), "note": [f"n{i % 5}" for i in range(n)]}, index=[f"c{seed}_{i}" for i in range(n)]
    )
    if extra:
        obs["only"] = np.arange(n)
    return anndata.AnnData(x, obs=obs, var=pd.DataFrame(index=[f"g{i}" for i in range(genes)]))


@pytest.fixture
def parts():
    return [make(30, 1, ["b", "a"]), make(50, 2, ["a", "c", "d"], extra=True), make(20, 3, ["d", "b"])]


@pytest.fixture
def store(tmp_path, parts):
    for i, part in enumerate(parts):
        part.write_h5ad(tmp_path / f"{i}.h5ad")
    made = annblock.pack([tmp_path / "0.h5ad", tmp_path / "1.h5ad"], tmp_path / "s")
    assert (made.n_obs, made.n_parts) == (80, 2)
    assert annblock.append(tmp_path / "2.h5ad", tmp_path / "s").n_parts == 3
    return annblock.open(tmp_path / "s")


def test_rows(store, parts):
    x = sp.vstack([p.X for p in parts]).tocsr()
    assert store.shape == (100, 40) and store.n_parts == 3 and store.generation == 2 and len(store.sidecars) == 3
    rows = np.random.default_rng(0).integers(0, 100, 60)
    assert (store[rows] != x[rows]).nnz == 0
    assert np.array_equal(store.matrix().dense(), x.toarray())


def test_parts_are_listed(store):
    assert [(p.first_row, p.n_obs, p.n_vars, p.shuffled) for p in store.parts] == [(0, 30, 40, False), (30, 50, 40, False), (80, 20, 40, False)]
    assert store.matrix().nnz_exact and "at most" not in repr(store.matrix())


def test_nnz_of_an_inner_join(tmp_path):
    sources = [make(30, 1, ["a"]), make(20, 2, ["a"], genes=25)]
    for i, part in enumerate(sources):
        part.write_h5ad(tmp_path / f"{i}.h5ad")
    with pytest.warns(UserWarning, match="not among the store's"):
        annblock.pack([tmp_path / "0.h5ad", tmp_path / "1.h5ad"], tmp_path / "s", join="inner")
    with annblock.open(tmp_path / "s") as store:
        x = store.matrix()
        assert not x.nnz_exact and f"at most {x.nnz} stored elements" in repr(x) and "at most" in store._repr_html_()
        assert store.nnz == sum(p.X.nnz for p in sources) > x.csr().nnz


def test_columns(store, parts):
    whole = anndata.concat(parts, join="outer")
    assert list(store.obs_names) == list(whole.obs_names) and list(store.var_names) == list(parts[0].var_names)
    line = store.obs["line"]
    assert list(line.cat.categories) == ["b", "a", "c", "d"]
    expected = pd.concat([p.obs["line"].astype(object) for p in parts])
    assert [a if a == a else None for a in line.astype(object)] == [b if b == b else None for b in expected]
    assert np.array_equal(store.obs["depth"], whole.obs["depth"]) and list(store.obs["note"]) == list(whole.obs["note"])
    only = store.obs["only"]
    assert list(only.isna()) == list(whole.obs["only"].isna()) and list(only.dropna()) == list(whole.obs["only"].dropna())


def test_to_anndata(store, parts):
    got = store.to_anndata([5, 99, 31])
    assert np.array_equal(got.X.toarray(), sp.vstack([p.X for p in parts]).tocsr()[[5, 99, 31]].toarray())
    assert list(got.obs_names) == ["c1_5", "c3_19", "c2_1"]


def test_other_genes(tmp_path):
    make(10, 1, ["a"]).write_h5ad(tmp_path / "a.h5ad")
    make(10, 2, ["a"], genes=30).write_h5ad(tmp_path / "b.h5ad")
    both = [tmp_path / "a.h5ad", tmp_path / "b.h5ad"]
    with pytest.raises(annblock.Error):
        annblock.pack(both, tmp_path / "s")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert annblock.pack(both, tmp_path / "inner", join="inner").n_vars == 30
        assert annblock.pack(both, tmp_path / "outer", join="outer").n_vars == 40
    x = sp.vstack([make(10, 1, ["a"]).X[:, :30], make(10, 2, ["a"], genes=30).X]).tocsr()
    assert (annblock.open(tmp_path / "inner")[:] != x).nnz == 0
