"""What the package reads from a packed file equals what h5py, scipy and anndata read from the source."""

import shutil
import warnings

import annblock
import h5py
import made_files
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from support import LONG, Rows, by_gene, listed, opens_in_anndata, real_files

NOT_YET = listed("not_yet.txt")
BESIDE = {
    "gen_layout_external_storage.h5ad": ("gen_ext.bin", np.arange(20, dtype="f4").tobytes())
}  # X's values, which are not in the folder
SLOW = {"gen_csr_nnz_over_2p31_vds.h5ad"}
REAL = [pytest.param(p, id=p.name) for p in real_files("accept")] or [
    pytest.param(None, marks=pytest.mark.skip(reason="H5AD_DIR is not set"))
]


def x_of(path):
    with h5py.File(path, "r", locking=False) as f:
        node = f.get("X")
        if node is None or (isinstance(node, h5py.Dataset) and node.shape is None):
            return None
        return Rows(node)


def same_bits(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape
    assert np.array_equal(np.ascontiguousarray(a).view(np.uint8), np.ascontiguousarray(b).view(np.uint8))


def check_rows(matrix, source, rows):
    got = matrix.csr(rows, dtype=None)
    indptr, indices, values = by_gene(*source.take(np.arange(source.shape[0])[rows]))
    expected = values.astype(np.float32) if values.dtype == np.float16 else values
    assert np.array_equal(got.indptr, indptr) and np.array_equal(got.indices, indices)
    same_bits(got.data, expected)


def dense_of(source):
    """Dense rows, repeats summed in the matrix's type."""
    out = np.zeros(source.shape, source.values.dtype)
    row = np.repeat(np.arange(source.shape[0]), np.diff(source.indptr))
    if source.has_repeats():
        np.add.at(out, (row, source.indices), source.values)
    else:
        out[row, source.indices] = source.values
    return out


def check_matrix(store, source):
    x = store.matrix("X")
    n, m = source.shape
    assert store.shape == (n, m) and x.nnz == store.nnz == len(source.values)
    assert x.dtype == source.values.dtype
    check_rows(x, source, slice(None))
    rng = np.random.default_rng(0)
    check_rows(x, source, rng.integers(0, n, 50) if n else [])
    check_rows(x, source, slice(None, None, -3))
    assert np.array_equal(x.row_nnz(), np.diff(source.indptr))
    if n * m < 1 << 24:
        same_bits(x.dense(), dense_of(source))


def check_frame(table, frame):
    """Columns that are in the store equal anndata's; dates and the like are only in the sidecar."""
    assert list(table.names) == list(frame.index)
    assert set(table.columns) <= set(frame.columns)
    for name in table.columns:
        got, expected = table[name], frame[name]
        if isinstance(expected, pd.DataFrame):
            continue
        if isinstance(expected.dtype, pd.CategoricalDtype):
            assert list(got.cat.categories) == list(expected.cat.categories) and got.cat.ordered == expected.cat.ordered
            assert np.array_equal(got.cat.codes, expected.cat.codes)
        else:
            same = [(a is pd.NA or a != a) if (b is pd.NA or b is None or b != b) else a == b for a, b in zip(got, expected)]
            assert all(same), name


def check_anndata(store, path):
    expected = opens_in_anndata(path)
    if expected is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = store.to_anndata()
    assert got.shape == expected.shape and type(got.X) is type(expected.X)
    assert equal(got.X, expected.X)
    pd.testing.assert_frame_equal(got.obs, expected.obs)
    pd.testing.assert_frame_equal(got.var, expected.var)
    assert set(got.layers) == set(expected.layers) - outside(path) and all(equal(got.layers[k], expected.layers[k]) for k in got.layers)
    assert set(got.obsm) == set(expected.obsm) and set(got.uns) == set(expected.uns)
    assert (got.raw is None) == (expected.raw is None)
    check_frame(store.obs, expected.obs)
    check_frame(store.var, expected.var)


def outside(path):
    """Layers that are external links: what they lead to is in another file."""
    with h5py.File(path, "r", locking=False) as f:
        layers = f.get("layers", {})
        return {k for k in layers if isinstance(layers.get(k, getlink=True), h5py.ExternalLink)}


def equal(a, b):
    a, b = dense(a), dense(b)
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def dense(x):
    """An array; scipy itself cannot do that where anndata kept odd index types."""
    if sp.issparse(x) and x.indices.dtype not in (np.int32, np.int64) or sp.issparse(x) and x.indptr.dtype not in (np.int32, np.int64):
        x = type(x)((x.data, x.indices.astype(np.int64), x.indptr.astype(np.int64)), shape=x.shape)
    return x.toarray() if sp.issparse(x) else np.asarray(x)


def check_file(path, tmp_path):
    source = x_of(path)
    if source is None:
        pytest.skip("has no X")
    annblock.pack(path, tmp_path / "store", progress=False)
    with annblock.open(tmp_path / "store") as store:
        check_matrix(store, source)
        if store.n_obs * store.n_vars < 1 << 26:
            check_anndata(store, path)
    annblock.export(tmp_path / "store", tmp_path / "out.h5ad")
    assert annblock.compare(path, tmp_path / "out.h5ad") == []


@pytest.mark.parametrize("path", REAL)
def test_all_matrices(path, tmp_path):
    """With every matrix packed the AnnData is the same: layers, raw and obsm too."""
    if path.name in SLOW or path.name in NOT_YET or path.name in BESIDE or path.stat().st_size > 1 << 20:
        pytest.skip("test_real has it")
    expected = opens_in_anndata(path)
    if expected is None:
        pytest.skip("anndata does not open it")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        annblock.pack(path, tmp_path / "s", matrices="all", progress=False)
        store = annblock.open(tmp_path / "s")
        got = store.to_anndata()
    if expected.X is not None:
        assert equal(got.X, expected.X)
    for slot in ("layers", "obsm"):
        ours, theirs = getattr(got, slot), getattr(expected, slot)
        assert set(ours) == set(theirs) - outside(path)
        for key in ours:
            if f"{slot}/{key}" in store.matrices:
                assert equal(ours[key], theirs[key])
    assert (got.raw is None) == (expected.raw is None)
    if expected.raw is not None:
        assert equal(got.raw.X, expected.raw.X)
        pd.testing.assert_frame_equal(got.raw.var, expected.raw.var)


@pytest.mark.parametrize("path", REAL)
def test_real(path, tmp_path, monkeypatch):
    if path.name in SLOW and not LONG:
        pytest.skip("make check-long packs it")
    if path.name in NOT_YET:
        with pytest.raises(annblock.Error):
            annblock.pack(path, tmp_path / "store", progress=False)
        return
    if path.name in BESIDE:
        name, values = BESIDE[path.name]
        path = shutil.copy(path, tmp_path / path.name)
        (tmp_path / name).write_bytes(values)
        monkeypatch.chdir(tmp_path)  # where h5py looks for it
    check_file(path, tmp_path)


@pytest.mark.parametrize("name", list(made_files.ACCEPT))
def test_made(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name in NOT_YET:
        pytest.skip(NOT_YET[name])
    made_files.ACCEPT[name](tmp_path / name)
    check_file(tmp_path / name, tmp_path)
