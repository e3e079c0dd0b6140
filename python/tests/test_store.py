"""Opening, looking, indexing, pickling; threads, forks, leaks; errors."""

import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import annblock
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

quick = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


# ---- import ----


def test_import_is_light():
    code = (
        "import sys, time, numpy; before = set(sys.modules); t = time.process_time(); import annblock; t = time.process_time() - t\n"
        "heavy = {'torch', 'scipy', 'pandas', 'anndata', 'h5py', 'tqdm'} & {m.split('.')[0] for m in set(sys.modules) - before}\n"
        "print(t, *heavy)"
    )
    took = []
    for _ in range(3):
        seconds, *heavy = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        assert not heavy
        took.append(float(seconds))
    assert min(took) < 0.1


# ---- what is in it ----


def test_properties(store, adata, example_store):
    assert store.shape == adata.shape == (store.n_obs, store.n_vars) and len(store) == adata.n_obs
    assert store.nnz == adata.X.nnz and store.matrices == ["X"] and store.generation == 1 and store.n_parts == 1
    assert store.path == str(example_store) and len(store.store_id) == 32
    assert store.obs_names.equals(adata.obs_names) and store.var_names.equals(adata.var_names)
    assert Path(store.sidecar).suffix == ".h5ad"


def test_tables(store, adata):
    pd.testing.assert_frame_equal(store.obs.to_pandas(), adata.obs)
    pd.testing.assert_frame_equal(store.var.to_pandas(), adata.var)
    assert store.obs.columns == list(adata.obs.columns) and "plate" in store.obs and store.obs.shape == adata.obs.shape
    assert store.obs["plate"].cat.categories.equals(adata.obs["plate"].cat.categories)
    assert store.obs.groupby("plate", observed=True).size().equals(adata.obs.groupby("plate", observed=True).size())
    pd.testing.assert_frame_equal(store.obs[["plate", "n_genes"]], adata.obs[["plate", "n_genes"]])
    with pytest.raises(annblock.NotFoundError, match="no column 'nope'"):
        store.obs["nope"]


def test_columns_are_views(store, adata):
    column = store.obs.column("total_counts")
    a, b = column.values, column.values
    assert np.shares_memory(a, b) and not a.flags.writeable and np.array_equal(a, adata.obs["total_counts"])
    assert np.shares_memory(store.obs["total_counts"].to_numpy(), a)
    codes = store.obs.column("plate")
    assert np.array_equal(codes.values, adata.obs["plate"].cat.codes) and list(codes.categories) == list(adata.obs["plate"].cat.categories)
    assert store.obs.column("passage").missing.sum() == adata.obs["passage"].isna().sum()


def test_views_outlive_the_store(example_store, adata):
    store = annblock.open(example_store)
    values, series = store.obs.column("total_counts").values, store.obs["pct_counts_mt"]
    store.close()
    del store
    gc.collect()
    assert np.array_equal(values, adata.obs["total_counts"]) and np.array_equal(series, adata.obs["pct_counts_mt"])


def test_looks(store):
    assert "2000 × 2400" in repr(store) and "'cell_line'" in repr(store)
    assert store._repr_html_().startswith("<table") and "plate" in store.obs._repr_html_()
    assert "float32" in repr(store.matrix()) and "categorical" in repr(store.obs)
    store.close()
    assert "closed" in repr(store) and "closed" in store._repr_html_()


# ---- indexing ----

rows_kinds = st.one_of(
    st.integers(-2000, 1999),
    st.slices(2000),
    st.lists(st.integers(-2000, 1999), max_size=40),
    st.lists(st.integers(0, 1999), max_size=40).map(lambda x: np.array(x, np.int32)),
    st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).random(2000) < 0.02),
    st.integers(0, 2**32 - 1).map(lambda seed: pd.Series(np.random.default_rng(seed).random(2000) < 0.02)),
    st.integers(0, 1900).map(lambda a: range(a, a + 20, 3)),
    st.just(Ellipsis),
)


@quick
@given(key=rows_kinds)
def test_rows(store, adata, key):
    got = store[key]
    expected = sp.csr_array(adata.X)[np.arange(2000)[key] if isinstance(key, slice) else positions(key, 2000)]
    assert isinstance(got, sp.csr_array) and got.shape == expected.shape and got.dtype == expected.dtype and got.has_sorted_indices
    assert (
        np.array_equal(got.indptr, expected.indptr)
        and np.array_equal(got.indices, expected.indices)
        and np.array_equal(got.data, expected.data)
    )


def positions(key, n):
    if key is Ellipsis:
        return np.arange(n)
    array = np.asarray([key] if isinstance(key, int) else key)
    return np.arange(n)[array] if array.size else np.arange(0)


gene_kinds = st.one_of(st.integers(-2400, 2399), st.slices(2400), st.lists(st.integers(-2400, 2399), max_size=30), st.just(slice(None)))


@quick
@given(rows=rows_kinds, genes=gene_kinds, named=st.booleans())
def test_rows_and_genes(store, adata, rows, genes, named):
    chosen = np.arange(2400)[genes] if isinstance(genes, slice) else positions(genes, 2400)
    at = np.arange(2000)[rows] if isinstance(rows, slice) else positions(rows, 2000)
    expected = sp.csr_array(adata.X)[at].toarray()[:, chosen]
    got = store[rows, list(adata.var_names[chosen]) if named and len(chosen) else genes]
    assert got.shape == expected.shape and np.array_equal(got.toarray(), expected)


def test_names(store, adata):
    names = list(adata.obs_names[[7, 3, 7]])
    assert np.array_equal(store[names].toarray(), adata[names].X.toarray())
    assert np.array_equal(store[names[0]].toarray(), adata[names[0]].X.toarray())
    assert np.array_equal(store[pd.Index(names), adata.var_names[5]].toarray(), adata[names, adata.var_names[5]].X.toarray())


@pytest.mark.parametrize(
    "key, error",
    [
        (2000, annblock.RangeError),
        (-2001, IndexError),
        ([0, 5000], annblock.RangeError),
        (2**70, annblock.RangeError),
        (np.array([2**63], np.uint64), annblock.RangeError),
        (np.ones(3, bool), annblock.ArgumentError),
        ("nobody", annblock.NotFoundError),
        (["nobody"], KeyError),
        (1.5, annblock.ArgumentError),
        ([1.0, 2.0], annblock.ArgumentError),
        (np.zeros((2, 2), int), annblock.ArgumentError),
        ((0, 9999), annblock.RangeError),
        ((0, "no gene"), annblock.NotFoundError),
    ],
)
def test_bad_keys(store, key, error):
    with pytest.raises(error) as caught:
        store[key]
    assert isinstance(caught.value, annblock.Error) and len(str(caught.value)) > 15


def test_where(store, adata):
    obs = adata.obs
    got = store.where('plate == "plate2" and n_genes > 300')
    assert got.dtype == bool and np.array_equal(got, (obs["plate"] == "plate2") & (obs["n_genes"] > 300))
    assert (store[got] != adata.X[got]).nnz == 0
    with pytest.raises(annblock.ArgumentError):
        store.where("plate ==")
    with pytest.raises(annblock.NotFoundError):
        store.where("nope == 3")


def test_matrix_options(store, adata):
    x = store.matrix("X")
    rows = np.array([5, 1999, 0])
    assert np.array_equal(x.dense(rows), adata.X[rows].toarray())
    assert x.csr(rows, dtype="int16").dtype == np.int16 and np.array_equal(x.csr(rows, dtype="int16").toarray(), adata.X[rows].toarray())
    stored, order = x.csr(rows, gene_order="stored"), x.gene_order()
    back = np.zeros((3, 2400), np.float32)
    back[:, order] = stored.toarray()
    assert np.array_equal(back, adata.X[rows].toarray())
    out = np.empty((3, 2400), np.float32)
    assert x.dense(rows, out=out) is out and np.array_equal(out, adata.X[rows].toarray())
    with pytest.raises(annblock.ArgumentError, match="out must be"):
        x.dense(rows, out=np.empty((2, 2400), np.float32))
    with pytest.raises(annblock.ArgumentError, match="delivered as"):
        x.csr(rows, dtype="complex64")
    with pytest.raises(annblock.NotFoundError, match="no matrix 'nope'"):
        store.matrix("nope")


def test_lossy(tmp_path):
    import anndata

    anndata.AnnData(np.array([[0, 70000.5], [1, 0]], np.float32)).write_h5ad(tmp_path / "a.h5ad")
    annblock.pack(tmp_path / "a.h5ad", tmp_path / "s")
    x = annblock.open(tmp_path / "s").matrix()
    with pytest.raises(annblock.LossyError) as caught:
        x.dense(dtype="uint16")
    assert caught.value.row == 0 and caught.value.code < 0 and caught.value.status == "ANNB_ELOSSY"
    assert x.dense(dtype="uint16", allow_lossy=True)[0, 1] == 65535


# ---- AnnData ----


def test_to_anndata(store, adata):
    got = store.to_memory()
    assert (got.X != adata.X).nnz == 0 and type(got.X) is type(adata.X)
    pd.testing.assert_frame_equal(got.obs, adata.obs)
    assert set(got.layers) == set(adata.layers) and set(got.obsm) == set(adata.obsm) and set(got.uns) == set(adata.uns)
    rows = [3, 1500, 7]
    some = store.to_anndata(rows)
    assert (some.X != adata[rows].X).nnz == 0 and list(some.obs_names) == list(adata.obs_names[rows])
    assert np.array_equal(some.obsm["X_pca"], adata.obsm["X_pca"][rows])
    few = store.to_anndata(store.obs["plate"] == "plate1")
    assert few.n_obs == (adata.obs["plate"] == "plate1").sum()


def test_backed(store, adata):
    pytest.importorskip("dask.array")
    got = store.to_anndata(backed=True)
    assert type(got.X).__name__ == "Array" and (got.X.compute() != adata.X).nnz == 0


# ---- life ----


def test_pickle(store, adata):
    again = pickle.loads(pickle.dumps(store))
    assert again.path == store.path and again.generation == store.generation and np.array_equal(again[:5].toarray(), store[:5].toarray())
    matrix = pickle.loads(pickle.dumps(store.matrix()))
    assert np.array_equal(matrix[3].toarray(), adata.X[3].toarray())


def test_generations(tmp_path, example_h5ad):
    annblock.pack(example_h5ad, tmp_path / "s")
    assert annblock.pack(example_h5ad, tmp_path / "s", force=True).generation == 2
    assert annblock.open(tmp_path / "s").generation == 2
    first = annblock.open(tmp_path / "s", generation=1)
    assert first.generation == 1 and pickle.loads(pickle.dumps(first)).generation == 1
    with pytest.raises(annblock.NotFoundError):
        annblock.open(tmp_path / "s", generation=7)
    with pytest.raises(annblock.ArgumentError):
        annblock.open(tmp_path / "s", generation=0)


def test_closed(example_store):
    with annblock.open(example_store) as store:
        pass
    assert store.closed
    with pytest.raises(annblock.ArgumentError, match="closed"):
        store[0]


def sums(path_or_store, rows):
    store = path_or_store if isinstance(path_or_store, annblock.Store) else annblock.open(path_or_store)
    return float(store[rows].sum())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(example_store, adata, method):
    store = annblock.open(example_store)
    expected = [float(adata.X[i : i + 50].sum()) for i in range(0, 400, 50)]
    sums(store, slice(0, 10))
    with multiprocessing.get_context(method).Pool(2) as pool:
        got = pool.starmap(sums, [(store, slice(i, i + 50)) for i in range(0, 400, 50)])
    assert got == expected and sums(store, slice(0, 50)) == expected[0]


def test_threads(store, adata):
    rng = np.random.default_rng(2)
    failures = []

    def work(seed):
        rows = np.random.default_rng(seed).integers(0, 2000, 200)
        for _ in range(20):
            if (store[rows] != sp.csr_array(adata.X[rows])).nnz or not store.obs["plate"].equals(adata.obs["plate"]):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(int(seed),)) for seed in rng.integers(0, 1 << 30, 6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_no_leaks(example_store):
    def open_and_read(n):
        for i in range(n):
            store = annblock.open(example_store)
            if i % 10 == 0:
                store[i % 2000]
                store.obs.column("total_counts").values
            if i % 2:
                store.close()
        gc.collect()

    open_and_read(500)
    before, descriptors = resident(), len(os.listdir("/proc/self/fd"))
    open_and_read(10_000)
    assert resident() - before < 4 << 20 and len(os.listdir("/proc/self/fd")) <= descriptors


# ---- errors ----


def test_error_tree():
    kinds = [k for k in vars(annblock).values() if isinstance(k, type) and issubclass(k, Exception)]
    assert len(kinds) == 16 and all(issubclass(k, annblock.Error) for k in kinds)
    assert sorted(k.code for k in kinds) == list(range(-15, 1))
    for kind in kinds:
        error = pickle.loads(pickle.dumps(kind("what is wrong", "/a/path", 5)))
        assert type(error) is kind and str(error) == "what is wrong" and (error.path, error.row) == ("/a/path", 5)


def test_not_a_store(tmp_path):
    with pytest.raises(annblock.NotAStoreError) as caught:
        annblock.open(tmp_path)
    assert caught.value.path == str(tmp_path) and str(tmp_path) in str(caught.value)
    with pytest.raises(annblock.ArgumentError):
        annblock.open("a\0b")


def damage(store):
    """Change one byte in the middle of the segment."""
    segment = max((Path(store) / "objects").glob("*.anns"), key=lambda p: p.stat().st_size)
    os.chmod(segment, 0o644)
    data = bytearray(segment.read_bytes())
    data[4096 + 700] ^= 1
    segment.write_bytes(data)
    return segment


def test_damage(tmp_path, example_h5ad):
    annblock.pack(example_h5ad, tmp_path / "s")
    segment = damage(tmp_path / "s")
    with pytest.raises(annblock.CorruptError) as caught:
        annblock.open(tmp_path / "s")[:]
    assert caught.value.path == str(segment) and caught.value.row is not None
    findings = annblock.verify(tmp_path / "s")
    assert findings and findings[0].status == "ANNB_ECORRUPT" and findings[0].path.endswith(".anns")
    assert any(f.store_row is not None for f in findings)


# ---- converting ----


def test_pack_errors(tmp_path, example_h5ad, example_store):
    with pytest.raises(annblock.ExistsError):
        annblock.pack(example_h5ad, example_store)
    (tmp_path / "no.h5ad").write_text("this is not HDF5")
    with pytest.raises(annblock.InputError) as caught:
        annblock.pack(tmp_path / "no.h5ad", tmp_path / "s")
    assert "no.h5ad" in str(caught.value) and not (tmp_path / "s").exists()
    with pytest.raises(annblock.ArgumentError):
        annblock.pack(example_h5ad, tmp_path / "s", gene_order="alphabet")
    with pytest.raises(annblock.ArgumentError):
        annblock.pack(example_h5ad, tmp_path / "s", memory="much")
    with pytest.raises(annblock.ExistsError):
        annblock.export(example_store, example_h5ad)


def test_round_trip(tmp_path, store, example_h5ad):
    annblock.export(store, tmp_path / "again.h5ad")
    assert annblock.compare(example_h5ad, tmp_path / "again.h5ad") == []
    import anndata

    adata = anndata.read_h5ad(example_h5ad)
    adata.X.data[3] += 1
    adata.write_h5ad(tmp_path / "other.h5ad")
    assert any(path == "/X/data" for path, _ in annblock.compare(example_h5ad, tmp_path / "other.h5ad"))


def test_matrices(tmp_path, example_h5ad, adata):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert annblock.pack(example_h5ad, tmp_path / "s", matrices="all").n_matrices == 3
    store = annblock.open(tmp_path / "s")
    assert sorted(store.matrices) == ["X", "layers/unspliced", "obsm/X_pca"]
    rows = [7, 1999, 7]
    assert (store.matrix("layers/unspliced")[rows] != adata.layers["unspliced"][rows]).nnz == 0
    assert np.array_equal(store.matrix("obsm/X_pca")[rows], adata.obsm["X_pca"][rows])
    got = store.to_anndata(rows)
    assert (got.layers["unspliced"] != adata.layers["unspliced"][rows]).nnz == 0 and np.array_equal(
        got.obsm["X_pca"], adata.obsm["X_pca"][rows]
    )
    loader = annblock.Loader(store, matrices=["X", "layers/unspliced"], genes=[5, 4])
    batch = next(iter(loader))
    assert np.array_equal(batch["layers/unspliced"].toarray(), adata.layers["unspliced"][batch.rows][:, [5, 4]].toarray())


def test_export_of_some(tmp_path, store, adata):
    import anndata

    rows, genes = [9, 10, 11, 3, 1500], list(adata.var_names[[70, 2]])
    annblock.export(store, tmp_path / "some.h5ad", rows=rows, genes=genes, compression="gzip", level=1)
    got, expected = anndata.read_h5ad(tmp_path / "some.h5ad"), adata[rows][:, genes]
    assert list(got.obs_names) == list(expected.obs_names) and list(got.var_names) == genes
    assert np.array_equal(got.X.toarray(), expected.X.toarray())
    annblock.export(store, tmp_path / "none.h5ad", rows=[], where='plate == "plate1"')
    assert anndata.read_h5ad(tmp_path / "none.h5ad").n_obs == 0
    annblock.export(store, tmp_path / "where.h5ad", where='plate == "plate1"')
    assert list(anndata.read_h5ad(tmp_path / "where.h5ad").obs_names) == list(adata.obs_names[adata.obs["plate"] == "plate1"])


def test_annotate(tmp_path, example_h5ad, adata):
    annblock.pack(example_h5ad, tmp_path / "s")
    other = adata.copy()
    other.obs["fresh"] = np.arange(2000)
    other.write_h5ad(tmp_path / "other.h5ad")
    assert annblock.annotate(tmp_path / "s", tmp_path / "other.h5ad") == 2
    assert np.array_equal(annblock.open(tmp_path / "s").obs["fresh"], np.arange(2000))
    with pytest.raises(annblock.InputError):
        other[:5].copy().write_h5ad(tmp_path / "few.h5ad")
        annblock.annotate(tmp_path / "s", tmp_path / "few.h5ad")


def test_progress(tmp_path, example_h5ad, capfd):
    annblock.pack(example_h5ad, tmp_path / "a")
    assert capfd.readouterr().err == "", "no bar where nobody looks"
    annblock.pack(example_h5ad, tmp_path / "b", progress="always")
    assert "pack" in capfd.readouterr().err
