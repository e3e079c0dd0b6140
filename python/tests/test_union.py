"""Several stores read as one, with other genes and categories, against anndata.concat."""

import multiprocessing
import pickle
import warnings

import annblock
import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

CATEGORIES = ["B cell", "T cell", "NK", "mono", "DC", "pDC"]


def make(rng, n, name, genes=60, label=True, dtype=np.float32):
    """A table whose genes and categories are some of all, in an order of its own."""
    names = rng.permutation([f"g{i}" for i in range(90)])[:genes]
    x = sp.random(n, genes, 0.3, "csr", np.float32, rng)
    x.data = rng.integers(1, 9, x.nnz).astype(dtype)
    obs = pd.DataFrame({"depth": rng.random(n)}, index=[f"{name}_{i}" for i in range(n)])
    if label:
        some = list(rng.permutation(CATEGORIES)[: rng.integers(2, 6)])
        codes = rng.integers(-1, len(some), n)
        obs["line"] = pd.Categorical.from_codes(codes, some)
    return anndata.AnnData(x, obs=obs, var=pd.DataFrame(index=names))


def pack(tables, path, **options):
    files = []
    for i, table in enumerate(tables):
        files.append(f"{path}-{i}.h5ad")
        table.write_h5ad(files[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        annblock.pack(files, path, **options)
    return path


def concat(tables, join):
    """What anndata makes of them: genes in the order of the first, then new ones as they appear; obs columns that any has, by value."""
    whole = anndata.concat(tables, join=join)
    whole.obs = pd.concat([t.obs.astype({"line": object} if "line" in t.obs else {}) for t in tables])
    order = list(dict.fromkeys(g for t in tables for g in t.var_names))
    return whole[:, [g for g in order if g in set(whole.var_names)]]


@pytest.fixture(params=range(6))
def case(request, tmp_path):
    """(stores, what they are together, how they are joined): of one part, and of several that are joined already."""
    rng, join = np.random.default_rng(request.param), ["inner", "outer"][request.param % 2]
    tables = [make(rng, int(rng.integers(20, 90)), f"t{i}", genes=int(rng.integers(55, 70)), label=i != 3) for i in range(5)]
    groups = [tables[:2], tables[2:3], tables[3:]] if request.param < 4 else [tables[:1], tables[1:4], tables[4:]]
    inside = ["outer", "inner", "outer"][request.param % 3]
    stores = [pack(g, tmp_path / f"s{i}", **({"join": inside} if len(g) > 1 else {})) for i, g in enumerate(groups)]
    wholes = [concat(g, inside) if len(g) > 1 else g[0] for g in groups]
    return stores, concat(wholes, join), join


def dense(x):
    return np.asarray(x.todense() if sp.issparse(x) else x)


def labels_of(adata):
    return [None if pd.isna(v) else v for v in adata.obs["line"].astype(object)]


def test_table(case):
    stores, whole, join = case
    store = annblock.open(stores, join=join)
    assert store.shape == whole.shape and list(store.var_names) == list(whole.var_names)
    assert list(store.obs_names) == list(whole.obs_names) and np.array_equal(store.obs["depth"], whole.obs["depth"])
    assert labels_of(store) == labels_of(whole)
    x, rows = dense(whole.X), np.random.default_rng(0).integers(0, store.n_obs, 200)
    assert np.array_equal(store[rows].toarray(), x[rows]) and np.array_equal(store.matrix().dense(rows), x[rows])
    assert np.array_equal(store[rows, ["g3", "g1"] if {"g3", "g1"} <= set(whole.var_names) else [1, 0]].shape, (200, 2))
    assert np.array_equal(store.matrix().csr(rows, sort_indices=False).toarray(), x[rows])
    some = store.where('line in ("B cell", "NK") and depth < 0.5 or line is null')
    expected = whole.obs["line"].isin(["B cell", "NK"]) & (whole.obs["depth"] < 0.5) | whole.obs["line"].isna()
    assert np.array_equal(some, expected)
    got = store.to_anndata(rows[:20])
    assert np.array_equal(dense(got.X), x[rows[:20]]) and list(got.var_names) == list(whole.var_names)
    assert "3 stores as one" in repr(store) and [s.path for s in store.stores] == [str(s) for s in stores]


def check_batches(loader, batches, whole, columns=None):
    x = dense(whole.X)
    names, labels = loader.categories["line"], labels_of(whole)
    for batch in batches:
        rows = np.asarray(batch.rows)
        got = batch.X.toarray() if sp.issparse(batch.X) else np.asarray(batch.X)
        assert np.array_equal(got, x[rows] if columns is None else columns[rows])
        assert [names[c] if c >= 0 else None for c in np.asarray(batch.obs["line"])] == [labels[r] for r in rows]


def loader_of(stores, join, **options):
    return annblock.Loader(stores, join=join, batch_size=16, block_size=4, fetch_factor=4, labels=["line"], num_threads=1, **options)


@pytest.mark.parametrize("options", [{}, {"output": "dense"}, {"sort_indices": True, "access": "pread"}])
def test_batches(case, options):
    stores, whole, join = case
    loader = loader_of(stores, join, **options)
    assert loader.genes == list(whole.var_names)
    batches = list(loader)
    check_batches(loader, batches, whole)
    assert sorted(np.concatenate([b.rows for b in batches])) == list(range(len(whole)))


def test_vocabulary_and_predicate(case):
    stores, whole, join = case
    genes = ["g5", "nowhere", "g80", "g1"]
    columns = np.zeros((len(whole), 4), np.float32)
    for j, gene in enumerate(genes):
        if gene in whole.var_names:
            columns[:, j] = dense(whole[:, [gene]].X)[:, 0]
    with pytest.warns(UserWarning, match="nowhere"):
        loader = loader_of(stores, join, genes=genes, where='line == "T cell" or line is null', output="dense")
    batches = list(loader)
    check_batches(loader, batches, whole, columns)
    wanted = np.flatnonzero((whole.obs["line"] == "T cell") | whole.obs["line"].isna())
    assert sorted(np.concatenate([b.rows for b in batches])) == list(wanted)


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_and_resume(case, world):
    stores, whole, join = case
    ranks = [loader_of(stores, join, rank=r, world_size=world) for r in range(world)]
    batches = [list(one) for one in ranks]
    assert len({len(b) for b in batches}) == 1
    for one, got in zip(ranks, batches):
        check_batches(one, got, whole)
    assert set(np.concatenate([b.rows for got in batches for b in got])) == set(range(len(whole)))
    first, steps, states = [], len(batches[0]) // 2, []
    for r in range(world):
        one = loader_of(stores, join, rank=r, world_size=world)
        it = iter(one)
        first += [next(it).rows for _ in range(steps)]
        states.append(pickle.dumps(one.state_dict()))
    assert len(set(states)) == 1
    rest = loader_of(stores, join)  # with another number of ranks
    rest.load_state_dict(pickle.loads(states[0]))
    rows = np.concatenate([*first, *[b.rows for b in rest]])
    assert sorted(rows) == list(range(len(whole)))


def test_state_knows_the_stores(case):
    stores, _, join = case
    one = loader_of(stores, join)
    next(iter(one))
    state = one.state_dict()
    for others in (stores[:2], stores[::-1]):
        two = loader_of(others, join)
        two.load_state_dict(state)
        with pytest.raises(annblock.ArgumentError, match="cannot be resumed"):
            next(iter(two))


def read_all(loader, queue):
    queue.put([(b.rows, b.X.toarray(), b.obs["line"]) for b in loader])


@pytest.mark.parametrize("case", [4], indirect=True)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(case, method):
    stores, _, join = case
    loader = loader_of(stores, join)
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=read_all, args=(loader, queue))
    process.start()
    there = queue.get(timeout=100)
    process.join()
    loader.set_epoch(0)  # processes share the count of epochs
    here = list(loader)
    assert len(here) == len(there)
    for a, (rows, x, codes) in zip(here, there):
        assert np.array_equal(a.rows, rows) and np.array_equal(a.X.toarray(), x) and np.array_equal(a.obs["line"], codes)


def test_entropy_and_balance(case):
    stores, whole, join = case
    found = annblock.entropy(stores, "line", join=join, batch_size=16, block_size=4)
    counts = whole.obs["line"].value_counts()
    p = counts[counts > 0] / counts.sum()
    assert found.classes == (counts > 0).sum() and found.label == pytest.approx(-(p * np.log2(p)).sum())
    balanced = loader_of(stores, join, strategy="balanced", num_samples=4000)
    codes = np.concatenate([b.obs["line"] for b in balanced])
    assert np.allclose(np.bincount(codes)[np.bincount(codes) > 0] / len(codes), 1 / found.classes, atol=0.06)
    weighted = loader_of(stores, join, strategy="weighted", weights="depth", num_samples=100)
    assert sum(len(b.rows) for b in weighted) == 100


def test_pickle_and_pinned_generations(tmp_path):
    rng = np.random.default_rng(0)
    a, b = make(rng, 30, "a"), make(rng, 20, "b")
    stores = [pack([a], tmp_path / "a"), pack([b], tmp_path / "b")]
    store = annblock.open(stores, join="outer")
    assert (store.generation, [s.generation for s in store.stores]) == (0, [1, 1])
    with pytest.warns(UserWarning, match="are zero in its cells"):
        annblock.append(f"{stores[1]}-0.h5ad", stores[0], join="outer")
    again = pickle.loads(pickle.dumps(store))
    assert again.stores == store.stores and again.shape == store.shape == (50, concat([a, b], "outer").n_vars)
    assert np.array_equal(again[:].toarray(), store[:].toarray()) and again.store_id == store.store_id
    old = annblock.open([annblock.open(stores[0], 1), stores[1]], join="outer")
    assert old.store_id == store.store_id and annblock.open(stores, join="outer").n_obs == 70
    assert len(annblock.open(stores[:1]).stores) == 1 and pickle.loads(pickle.dumps(annblock.open(stores[:1]))).shape == (50, store.n_vars)


def test_other_types_and_matrices(tmp_path):
    """u16 and f32 become f32; a layer that one store lacks is an error there; columns that do not fit are in the stores only."""
    rng = np.random.default_rng(1)
    a, b = make(rng, 30, "a", dtype=np.uint16), make(rng, 20, "b")
    a.layers["twice"] = a.X * 2
    a.obs["mixed"], b.obs["mixed"] = "text", 1.5
    a.obs["number"], b.obs["number"] = pd.Categorical([1, 2] * 15), pd.Categorical([3, 1] * 10)
    stores = [pack([a], tmp_path / "a", matrices="all"), pack([b], tmp_path / "b")]
    store = annblock.open(stores, join="inner")
    assert store.matrix().dtype == np.float32 and np.array_equal(store[:].toarray(), dense(concat([a, b], "inner").X))
    assert store.matrix("layers/twice")[:30].shape == (30, store.n_vars) and "mixed" not in store.obs.columns
    with pytest.raises(annblock.NotFoundError, match="layers/twice"):
        store.matrix("layers/twice")[[3, 30]]
    with pytest.raises(annblock.NotFoundError, match="layers/twice"):
        next(iter(annblock.Loader(stores, join="inner", matrices=["X", "layers/twice"])))
    batches = annblock.Loader(stores, join="inner", matrices=["X", "layers/twice"], rows=np.arange(30))
    assert all(np.array_equal(2 * batch.X.toarray(), batch["layers/twice"].toarray()) for batch in batches)
    assert list(store.obs["number"]) == [1, 2] * 15 + [3, 1] * 10 and list(store.obs["number"].cat.categories) == [1, 2, 3]


def test_refused(tmp_path):
    rng = np.random.default_rng(2)
    stores = [pack([make(rng, 10, n)], tmp_path / n) for n in "ab"]
    with pytest.raises(annblock.ArgumentError, match="join inner .* or join outer"):
        annblock.Loader(stores)
    with pytest.raises(annblock.ArgumentError, match="the same store"):
        annblock.Loader([stores[0], stores[0]])
    with pytest.raises(annblock.ArgumentError, match="one list"):
        annblock.open([annblock.open(stores, join="inner"), stores[0]])
    for wrong in ({"join": "left"}, {"generation": 1, "join": "inner"}):
        with pytest.raises(annblock.ArgumentError):
            annblock.open(stores, **wrong)
    with pytest.raises(annblock.ArgumentError, match="join is"):
        annblock.Loader(annblock.open(stores[0]), join="left")
    with pytest.raises(annblock.ArgumentError, match="at least one"):
        annblock.Loader([])
    with pytest.raises(annblock.NotFoundError, match="label"):
        annblock.Loader(stores, join="inner", labels=["label"])
    with pytest.raises(annblock.ArgumentError, match="gene orders"):
        next(iter(annblock.Loader(stores, join="outer", gene_order="stored")))


def test_stored_order_of_equal_genes(tmp_path):
    """Records of files packed in the source's order hold the same numbers: they may be asked for."""
    rng = np.random.default_rng(3)
    tables = [make(rng, 30, n, genes=90) for n in "ab"]
    tables[1] = tables[1][:, tables[0].var_names].copy()
    stores = [pack([t], tmp_path / f"s{i}", gene_order="source") for i, t in enumerate(tables)]
    check_batches(one := loader_of(stores, None, gene_order="stored"), list(one), concat(tables, "inner"))
    assert one.genes == list(tables[0].var_names)
