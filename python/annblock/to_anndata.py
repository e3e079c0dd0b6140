"""A store, or rows of it, as AnnData."""

import warnings

import numpy as np

from . import errors, indexing

DASK_ROWS = 4096


def to_anndata(store, rows, genes, backed):
    """See Store.to_anndata."""
    try:
        import anndata
    except ImportError:
        raise ImportError("to_anndata needs the anndata package: pip install anndata") from None
    chosen = None if rows is None else indexing.resolve(rows, store.n_obs, lambda: store.obs_names, "row")
    columns = None if genes is None else indexing.resolve(genes, store.n_vars, lambda: store.var_names, "gene").astype(np.int64)
    take = lazy if backed else fetch
    adata = metadata(anndata, store, chosen)
    values = {name: take(store.matrix(name), chosen, store.n_obs) for name in store.matrices}
    for name, value in values.items():
        put(anndata, adata, name, value)
    put_restored(anndata, store, adata, values, chosen)
    return adata if columns is None else adata[:, columns].copy()


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
    elif name != "raw/X":
        raise errors.UnsupportedError(f"matrix {name!r} has no place in an AnnData")


# ---- what the restore file knows: links to packed matrices, and a raw whose X is packed ----

HARD = "annblock.hard:"


def canonical(file, path, depth=0):
    """Where links lead from `path`: a path of the source without links; None where they lead out of the file or nowhere."""
    import h5py

    at = ""
    steps = [s for s in path.split("/") if s not in ("", ".")]
    for i, step in enumerate(steps):
        at = f"{at}/{step}"
        link = file.get(at, getlink=True) if at in file or link_is_there(file, at) else None
        if isinstance(link, h5py.ExternalLink) or depth > 32:
            return None
        if isinstance(link, h5py.SoftLink):
            target = link.path.removeprefix(HARD)
            base = target if target.startswith("/") else f"{at.rpartition('/')[0]}/{target}"
            return canonical(file, "/".join([base, *steps[i + 1 :]]), depth + 1)
    return at


def identity(file, path):
    """What tells an object from others: its address in the file (hard links to one object share it), or where its path leads."""
    import h5py

    path = canonical(file, path)
    if path is None or path not in file:
        return path
    return h5py.h5o.get_info(file[path].id).addr


def link_is_there(file, path):
    """Whether there is a link at `path`, dangling or not."""
    parent, _, name = path.rpartition("/")
    group = file.get(parent or "/")
    return group is not None and hasattr(group, "keys") and name in group.keys()


def links_to_packed(file, names):
    """{path: matrix} of the layers and obsm entries that were links to a packed matrix."""
    import h5py

    targets = {identity(file, name): name for name in names}
    found = {}
    for slot in ("layers", "obsm"):
        group = file.get(slot)
        for key in group.keys() if group is not None else ():
            target = targets.get(identity(file, f"{slot}/{key}"))
            if isinstance(group.get(key, getlink=True), h5py.ExternalLink):
                warnings.warn(f"{slot}/{key} was a link into another file, which the store does not hold: it is left out", stacklevel=4)
            elif target and f"{slot}/{key}" not in names:
                found[f"{slot}/{key}"] = target
    return found


def put_restored(anndata, store, adata, values, chosen):
    """Entries that were links to packed matrices, and raw."""
    path = store._part_file(0, "restore")
    if store.n_parts != 1 or path is None:
        return
    import h5py

    with h5py.File(path, "r", locking=False) as file:
        for entry, target in links_to_packed(file, list(values)).items():
            put(anndata, adata, entry, values[target].copy())
        if "raw/X" in values:
            put_raw(anndata, adata, file, values["raw/X"])


def put_raw(anndata, adata, file, values):
    """raw, whose var (and varm) is in the restore file; before anndata 0.7 beside it in the root, as tables of its own kind."""
    read = getattr(anndata, "io", anndata.experimental).read_elem
    if "raw/var" in file:
        adata.raw = anndata.AnnData(values, obs=adata.obs[[]], var=read(file["raw/var"]))
        if "raw/varm" in file:
            adata.raw.varm.update(read(file["raw/varm"]))
    elif "raw.var" in file:
        try:
            from anndata._io.h5ad import read_dataframe  # no public function reads old tables
        except ImportError:
            warnings.warn("raw is left out: this version of anndata does not read its table of genes", stacklevel=5)
            return
        adata.raw = anndata.AnnData(values, obs=adata.obs[[]], var=read_dataframe(file["raw.var"]))
