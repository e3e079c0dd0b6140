"""One matrix of a store (X, a layer, …), by rows."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from . import errors, indexing
from ._c import CODES, NUMPY, check, ffi, lib, local, text, view
from .batch import Csr, Memory, empty

if TYPE_CHECKING:
    import scipy.sparse

FORMS = {lib.ANNB_CSR: "csr", lib.ANNB_CSC: "csc", lib.ANNB_DENSE: "dense"}
AXES = {lib.ANNB_OBS_VAR: "var", lib.ANNB_OBS_RAW_VAR: "raw_var", lib.ANNB_OBS_FREE: "free"}
INT32_MAX = 2**31 - 1


class Matrix:
    """A matrix of n_obs rows in a store, from `store.matrix(name)`.

    `matrix[rows]` and `matrix[rows, genes]` give a `scipy.sparse.csr_array` (ascending gene numbers within each row) or, for a matrix
    that was dense in the source, a numpy array; always with two dimensions, rows and genes chosen independently as in AnnData.
    Rows and genes are numbers, slices, masks, index arrays or names.

    `name`, `shape`, `nnz` (stored elements; a bound unless `nnz_exact`), `nbytes` (in the store), `dtype`, `form` ("csr", "csc"
    or "dense": of the source).
    """

    def __init__(self, store, facts):
        # The store keeps the facts and not this object: two that hold each other would keep their memory until Python looks for cycles.
        self.__dict__ = {**facts, "_store": store}

    def __reduce__(self):
        return matrix_of, (self._store, self.name)

    def __repr__(self):
        n, m = self.shape
        most = "" if self.nnz_exact else "at most "
        return f"<annblock matrix {self.name!r}: {n} × {m} {self.dtype}, {most}{self.nnz} stored elements, from {self.form}>"

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nnz_exact(self) -> bool:
        """Whether `nnz` is what rows have together. Where files have genes that the store has not (`join="inner"`) it is a bound: their
        elements are stored and counted, but never delivered; the same is true of `row_nnz`."""
        exact = ffi.new("bool *")
        check(lib.annb_matrix_nnz_exact(self._handle, self._number, exact, local.error), local.error)
        return bool(exact[0])

    @property
    def ndim(self) -> int:
        return 2

    def _genes(self):
        if self.axis != "var":
            raise errors.NotFoundError(f"the columns of {self.name!r} are not the genes of var: choose them by number")
        return self._store.var_names

    def _rows(self, key):
        """Row numbers as a contiguous uint64 array, which may be the caller's own: it is only read."""
        known = indexing.numbers(key, self.shape[0])
        return indexing.resolve(key, self.shape[0], lambda: self._store.obs_names, "row") if known is None else known

    def _columns(self, genes):
        if genes is None or genes is Ellipsis or (isinstance(genes, slice) and genes == slice(None)):
            return None
        return indexing.resolve(genes, self.shape[1], self._genes, "gene").astype(np.int64)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) > 2:
            raise errors.ArgumentError(f"[rows, genes] are two, not {len(key)}: several rows are a list, like [[5, 3, 8]]")
        rows, genes = key if isinstance(key, tuple) and len(key) == 2 else (key, None)
        genes = self._columns(genes)
        if self.form == "dense":
            values = self.dense(rows)
            return values if genes is None else np.ascontiguousarray(values[:, genes])
        values = self.csr(rows)
        return values if genes is None else values[:, genes]

    def row_nnz(self, rows: Any = None) -> np.ndarray:
        """Stored elements of each of `rows` (all: None) as an int64 array. Reads the index only."""
        rows = self._rows(rows)
        counts = np.empty(len(rows), np.uint32)
        at = ffi.from_buffer("uint32_t[]", counts)
        check(
            lib.annb_fetch_nnz(self._handle, self._number, ffi.from_buffer("uint64_t[]", rows), len(rows), at, ffi.NULL, local.error),
            local.error,
        )
        return counts.astype(np.int64)

    def csr(
        self, rows: Any = None, dtype: Any = None, sort_indices: bool = True, gene_order: str = "original", allow_lossy: bool = False
    ) -> scipy.sparse.csr_array:
        """`rows` as a `scipy.sparse.csr_array`.

        `dtype`: of the values (default: the matrix's own; float16 comes as float32, which scipy needs); LossyError where a value does not
        fit exactly, unless `allow_lossy`. `gene_order="stored"`: the numbers of the records (see `gene_order`), the fastest with
        `sort_indices=False`. Repeated indices are delivered as stored.
        """
        rows, dtype = self._rows(rows), self.sparse_dtype(dtype)
        maker = self._makers.get(sort_indices)
        if maker is None:
            maker = self._makers[sort_indices] = Csr(self.shape[1], sort_indices)
        held = self._fetch(rows, self._fetch_options(dtype, sort_indices, gene_order, allow_lossy), False)
        return maker(*Memory(held).csr(held.matrices[0], len(rows), dtype))

    def _fetch(self, rows, options, dense):
        """The filled annb_batch of `rows`. Its memory serves later calls when the last array over it is gone."""
        store, held, error = self._store, empty(), local.error
        context, rows_at = store._take_context(), ffi.from_buffer("uint64_t[]", rows)
        try:
            status = lib.annb_fetch_batch(self._handle, context, self._number, rows_at, len(rows), options, dense, held, error)
        finally:
            store._give_context(context)
        if status:
            check(status, error)
        return held

    def dense(
        self, rows: Any = None, dtype: Any = None, gene_order: str = "original", allow_lossy: bool = False, out: np.ndarray | None = None
    ) -> np.ndarray:
        """`rows` as a numpy array of n × n_vars, row-major. Repeated indices are summed. `out`: a C-contiguous array to fill instead."""
        rows = self._rows(rows)
        dtype = as_dtype(dtype) if dtype is not None else self.dtype if out is None else out.dtype
        shape, options = (len(rows), self.shape[1]), self._fetch_options(dtype, False, gene_order, allow_lossy)
        if out is None:
            held = self._fetch(rows, options, True)
            return Memory(held).dense(held.matrices[0], len(rows), dtype)
        if out.shape != shape or out.dtype != dtype or not out.flags.c_contiguous:
            raise errors.ArgumentError(f"out must be a C-contiguous array of {shape[0]} × {shape[1]} {dtype}")
        into, error = ffi.from_buffer(out.reshape(-1).view(np.uint8), require_writable=True), local.error
        context = self._store._take_context()
        try:
            rows_at = ffi.from_buffer("uint64_t[]", rows)
            check(
                lib.annb_fetch_dense(self._handle, context, self._number, rows_at, len(rows), options, into, 0, out.nbytes, error), error
            )
        finally:
            self._store._give_context(context)
        return out

    def _fetch_options(self, dtype, sort_indices, gene_order, allow_lossy):
        key = dtype, sort_indices, gene_order, allow_lossy, os.getpid()  # a worker process has other threads
        options = self._options.get(key)
        if options is None:
            options = self._options[key] = fetch_options(self.delivered(dtype), sort_indices, gene_order, allow_lossy, False)
            options.n_threads = self._store.num_threads
        return options

    def gene_order(self, part: int = 0) -> np.ndarray | None:
        """The column number behind each number of `gene_order="stored"`, as a uint32 array; None where they are the same."""
        ids = ffi.new("const uint32_t **")
        check(lib.annb_matrix_gene_order(self._handle, part, self._number, ids, local.error), local.error)
        return view(ids[0], self.shape[1], np.dtype(np.uint32), self._handle) if ids[0] else None

    def sparse_dtype(self, dtype=None):
        """What CSR values come as when `dtype` is asked for."""
        if dtype is None:
            return np.dtype(np.float32) if self.dtype == np.float16 else self.dtype
        return as_dtype(dtype)

    def delivered(self, dtype):
        """The type to ask C for: bytes of a bool matrix may be any, as uint8 they come as 0 and 1."""
        return np.dtype(np.uint8) if self.dtype == dtype == np.bool_ else dtype


def as_dtype(value):
    """The numpy dtype that `value` names; ArgumentError."""
    try:
        return np.dtype(value)
    except (TypeError, ValueError):
        raise errors.ArgumentError(f"dtype: numpy has no type {value!r}; ask for one like 'float32' or 'int64'") from None


def matrix_facts(handle, number):
    """What a Matrix is made of, beside the store; what it finds out later is shared by all over the same facts."""
    info = ffi.new("annb_matrix_info *")
    check(lib.annb_store_matrix(handle, number, info, local.error), local.error)
    return {
        "name": text(info.name), "shape": (int(info.n_rows), int(info.n_cols)), "nnz": int(info.nnz), "nbytes": int(info.bytes),
        "dtype": NUMPY[info.dtype], "form": FORMS.get(info.form, "csr"), "axis": AXES[info.axes],
        "_handle": handle, "_number": number, "_options": {}, "_makers": {},
    }  # fmt: skip


def matrix_of(store, name):
    return store.matrix(name)


def fetch_options(dtype, sort_indices, gene_order, allow_lossy, index64):
    if dtype not in CODES:
        raise errors.ArgumentError(f"values cannot be delivered as {dtype}: use bool, an integer or a floating-point type")
    if gene_order not in ("original", "stored"):
        raise errors.ArgumentError(f'gene_order is "original" or "stored", not {gene_order!r}')
    return ffi.new(
        "annb_fetch_options *",
        {
            "dtype": CODES[dtype],
            "index64": index64,
            "sort_indices": sort_indices,
            "allow_lossy": allow_lossy,
            "gene_order": lib.ANNB_GENES_STORED if gene_order == "stored" else lib.ANNB_GENES_ORIGINAL,
        },
    )
