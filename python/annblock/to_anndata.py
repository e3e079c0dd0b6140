"""A store, or rows of it, as AnnData."""
import warnings

import numpy as np

from . import errors, indexing

DASK_ROWS = 4096


def to_anndata(store, rows, backed):
    """See Store.to_anndata."""
    try:
        import anndata
    except ImportError:
        raise ImportError("to_anndata needs the anndata package: pip install anndata") from None
    chosen = None if rows is None else indexing.resolve(rows, store.n_obs, lambda: store.obs_names, "row")
    take = lazy if backed else fetch
    adata = metadata(anndata, store, chosen)
    for name in store.matrices:
        put(anndata, adata, name, take(store.matrix(name), chosen, store.n_obs))
    return adata


def metadata(anndata, store, chosen):
    """Everything but the packed matrices. Of several parts obs and var only: the rest differs from sidecar to sidecar."""
    if store.n_parts == 1 and store.sidecar:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            adata = anndata.read_h5ad(store.sidecar)
        return adata if chosen is None else adata[chosen.astype(np.int64)].copy()
    obs = store.obs.to_pandas()
    return anndata.AnnData(obs=obs if chosen is None else obs.iloc[chosen.astype(np.int64)], var=store.var.to_pandas())


def fetch(matrix, chosen, n_obs):
    """Values in the form of the source: csr_matrix, csc_matrix or an array."""
    import scipy.sparse

    rows = np.arange(n_obs, dtype=np.uint64) if chosen is None else chosen
    if matrix.form == "dense":
        return matrix.dense(rows)
    values = scipy.sparse.csr_matrix(matrix.csr(rows))
    return values.tocsc() if matrix.form == "csc" else values


def lazy(matrix, chosen, n_obs):
    """A dask array of row blocks, each fetched when it is computed."""
    try:
        import dask
        import dask.array
    except ImportError:
        raise ImportError("to_anndata(backed=True) needs dask: pip install dask; or leave backed out") from None
    rows = np.arange(n_obs, dtype=np.uint64) if chosen is None else chosen
    meta = fetch_rows(matrix, rows[:0])
    blocks = []
    for start in range(0, max(len(rows), 1), DASK_ROWS):
        some = rows[start : start + DASK_ROWS]
        block = dask.delayed(fetch_rows)(matrix, some)
        blocks.append(dask.array.from_delayed(block, (len(some), matrix.shape[1]), meta=meta))
    return dask.array.concatenate(blocks, axis=0)


def fetch_rows(matrix, rows):
    import scipy.sparse

    return matrix.dense(rows) if matrix.form == "dense" else scipy.sparse.csr_matrix(matrix.csr(rows))


def put(anndata, adata, name, values):
    """Set a matrix where its name says."""
    slot, _, key = name.partition("/")
    if name == "X":
        adata.X = values
    elif slot in ("layers", "obsm"):
        getattr(adata, slot)[key] = values
    elif name == "raw/X":
        put_raw(anndata, adata, values)
    else:
        raise errors.UnsupportedError(f"matrix {name!r} has no place in an AnnData")


def put_raw(anndata, adata, values):
    raw = adata.raw
    n = values.shape[1]
    var = raw.var if raw is not None else adata.uns.pop("raw/var", None)
    adata.raw = anndata.AnnData(values, obs=adata.obs[[]], var=var if var is not None else None) if var is not None or n else None
