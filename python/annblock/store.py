"""An open store."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import errors
from ._c import check, ffi, lib, local, name_bytes, new_context, path_bytes, text
from .arguments import positive
from .columns import Table
from .matrix import Matrix, matrix_facts
from .processes import usual_threads

if TYPE_CHECKING:
    import anndata
    import pandas as pd

Path = str | os.PathLike[str]
# Where what AnnData has is to be found.
ELSEWHERE = {
    "X": "store[rows] gives rows of X, store.matrix() is all of it",
    "layers": 'store.matrix("layers/NAME") is a layer that was packed; store.matrices lists them',
    "raw": 'store.matrix("raw/X") is the matrix of raw, if it was packed; all of raw is in store.to_anndata()',
    "obsm": 'store.matrix("obsm/NAME") is one that was packed; all of obsm is in store.to_anndata()',
} | {name: f"{name} is in the sidecar, and in store.to_anndata()" for name in ("varm", "obsp", "varp", "uns")}


JOINS = {None: lib.ANNB_JOIN_NONE, "inner": lib.ANNB_JOIN_INNER, "outer": lib.ANNB_JOIN_OUTER}


def open(
    path: Path | Sequence[Path | Store],
    generation: int | None = None,
    *,
    join: str | None = None,
    check_records: bool = True,
    num_threads: int | None = None,
) -> Store:
    """Open the store at `path` (a directory) for reading: a `Store`.

    A list of paths and `Store`s is read as one store: rows, obs and matrices of all, in the order given, as if they had been packed into
    one. `join`: how their genes become one list, by name: None (they must be equal), "inner" (the genes that all have) or "outer" (those of
    all; zero in cells of stores without them). Categories of obs are one by name; a column that a store lacks is missing in its cells.

    `generation`: an older one than the newest (of a list: open them one by one). `check_records=False` leaves out the check of each record
    that is read (index pages and headers are always checked). `num_threads`: that decode the rows of a call; by default one per processor,
    at most 8, and one in worker processes of torch's DataLoader. NotAStoreError, VersionError, UnsupportedError, CorruptError,
    InputOutputError, NotFoundError; ArgumentError for stores that do not fit together.

    >>> import annblock
    >>> store = annblock.open(example_store)
    >>> store.shape
    (2000, 2400)
    """
    return Store(path, generation, join=join, check_records=check_records, num_threads=num_threads)


@dataclass(frozen=True)
class Source:
    """One of several stores that are read as one: `path`, `store_id`, `generation`; its `n_obs` cells are the rows from `first_row` on."""

    path: str
    store_id: str
    generation: int
    first_row: int
    n_obs: int


@dataclass(frozen=True)
class Part:
    """A file in a store: its cells are the store's rows from `first_row` on, `n_obs` of them; `n_vars`: the file's own genes; `shuffled`:
    whether its rows stand in another order than in the file."""

    first_row: int
    n_obs: int
    n_vars: int
    shuffled: bool


class Store:
    """A store, or several as one, open for reading: immutable, safe from any number of threads and after fork. Pickles as its path and
    generation. Of several stores `path` is a description, `generation` 0 and `store_id` made of theirs, which `stores` tells.

    >>> store = annblock.open(example_store)
    >>> store[[0, 5, 2]].shape                     # a scipy.sparse.csr_array
    (3, 2400)
    >>> store[:10, ["XBP1", "ATP6V451"]].shape
    (10, 2)
    >>> store.obs["cell_line"].dtype.name
    'category'
    """

    def __init__(
        self,
        path: Path | Sequence[Path | Store],
        generation: int | None = None,
        *,
        join: str | None = None,
        check_records: bool = True,
        num_threads: int | None = None,
    ):
        if join not in JOINS:
            raise errors.ArgumentError(f'join is None, "inner" or "outer", not {join!r}')
        self._check_records, self._join = check_records, join
        self._asked_threads = None if num_threads is None else positive(num_threads, "num_threads")
        self._contexts: list[Any] = []  # those that no call is using
        several = isinstance(path, (list, tuple))
        out = open_union(path, generation, join, check_records) if several else open_one(path, generation, check_records)
        self._held = ffi.gc(out[0], lib.annb_store_close)
        self.path = text(lib.annb_store_path(self._held)) if several else os.path.abspath(os.fspath(path))  # type: ignore[arg-type]
        info = ffi.new("annb_store_info *")
        lib.annb_store_get_info(self._held, info)
        self._n_sources, self._several = int(info.n_sources), several
        self.n_obs, self.n_vars, self.generation = int(info.n_obs), int(info.n_vars), int(info.generation)
        self.nbytes, self.n_parts = int(info.bytes), int(info.n_parts)
        self.store_id = bytes(ffi.buffer(info.store_id)).hex()
        self._n_matrices = int(info.n_matrices)
        self._cache: dict[str, Any] = {}

    # ---- life ----

    @property
    def _handle(self):
        if self._held is None:
            raise errors.ArgumentError(f"{self.path}: the store is closed")
        return self._held

    @property
    def closed(self) -> bool:
        return self._held is None

    def close(self) -> None:
        """Let go of the store. Arrays that view its memory stay valid; it is unmapped when the last of them is gone."""
        self._held = None
        self._cache = {}
        self._contexts.clear()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_):
        self.close()

    def __reduce__(self):
        sources = [(s.path, s.generation) for s in self.stores]
        return reopen, (sources, self._several, self._join, self._check_records, self._asked_threads)

    # ---- calls ----

    @property
    def num_threads(self) -> int:
        """Threads that decode the rows of a call."""
        if self._asked_threads is not None:
            return self._asked_threads
        return usual_threads(8)

    def _take_context(self):
        """A context for one call: as many are kept as there were calls at once."""
        try:
            return self._contexts.pop()
        except IndexError:
            return new_context()

    def _give_context(self, context):
        self._contexts.append(context)

    # ---- what is in it ----

    @property
    def shape(self) -> tuple[int, int]:
        """(n_obs, n_vars)"""
        return self.n_obs, self.n_vars

    def __len__(self) -> int:
        return self.n_obs

    @property
    def matrices(self) -> list[str]:
        """The names of the matrices, as a list: "X" and what else was packed."""
        return list(self._all())

    @property
    def stores(self) -> list[Source]:
        """The stores that this one reads as one, as a list of `Source`: of an ordinary store itself alone."""
        info, found = ffi.new("annb_source_info *"), []
        for i in range(self._n_sources):
            check(lib.annb_store_source(self._handle, i, info, local.error), local.error)
            store_id, path = bytes(ffi.buffer(info.store_id)).hex(), os.path.abspath(os.fsdecode(ffi.string(info.path)))
            found.append(Source(path, store_id, int(info.generation), int(info.first_row), int(info.n_rows)))
        return found

    @property
    def parts(self) -> list[Part]:
        """The files in the store, as a list of `Part`, in the order of their rows."""
        info, found = ffi.new("annb_part_info *"), []
        for number in range(self.n_parts):
            check(lib.annb_store_part(self._handle, number, info, local.error), local.error)
            found.append(Part(int(info.first_row), int(info.n_rows), int(info.n_vars), bool(info.shuffled)))
        return found

    @property
    def nnz(self) -> int:
        """Stored elements of X; a bound where files have genes that the store has not, see `Matrix.nnz_exact`."""
        return self.matrix("X").nnz

    def _all(self) -> dict[str, Any]:
        """The facts of each matrix, by name."""
        if "matrices" not in self._cache:
            handle = self._handle
            found = [matrix_facts(handle, i) for i in range(self._n_matrices)]
            self._cache["matrices"] = {facts["name"]: facts for facts in found}
        return self._cache["matrices"]

    def matrix(self, name: str = "X") -> Matrix:
        """The `Matrix` called `name`: "X", "layers/counts", "raw/X", … NotFoundError."""
        try:
            return Matrix(self, self._all()[name])
        except KeyError:
            listed = ", ".join(map(repr, self.matrices)) or "none"
            raise errors.NotFoundError(
                f"{self.path}: there is no matrix {name!r} in the store; there are: {listed}", path=self.path
            ) from None

    def __getitem__(self, key: Any) -> Any:
        """Rows of X: `store[rows]`, `store[rows, genes]`; see `Matrix`."""
        return self.matrix("X")[key]

    @property
    def obs(self) -> Table:
        """The table of cells, a `Table`: columns are read when they are asked for."""
        return self._table("obs", self.n_obs)

    @property
    def var(self) -> Table:
        """The table of genes, a `Table`."""
        return self._table("var", self.n_vars)

    def _table(self, axis, length):
        if axis not in self._cache:
            self._cache[axis] = Table(self._handle, axis, length, self.n_parts)
        return self._cache[axis]

    @property
    def obs_names(self) -> pd.Index:
        """The names of the cells, a pandas Index."""
        return self.obs.names

    @property
    def var_names(self) -> pd.Index:
        """The names of the genes, a pandas Index."""
        return self.var.names

    @property
    def sidecar(self) -> str | None:
        """Path of the `.h5ad` with everything that is not packed; None where there is none. Of the first part, when there are several."""
        return self.sidecars[0]

    @property
    def sidecars(self) -> list[str | None]:
        """Path of the sidecar of each part, None where a part has none."""
        return [self._part_file(part, "sidecar") for part in range(self.n_parts)] or [None]

    def _part_file(self, part, kind):
        out = ffi.new("const char **")
        number = {"sidecar": lib.ANNB_OBJECT_SIDECAR, "restore": lib.ANNB_OBJECT_RESTORE}[kind]
        check(lib.annb_store_part_file(self._handle, part, number, out, local.error), local.error)
        return text(out[0]) if out[0] else None

    def where(self, predicate: str) -> np.ndarray:
        """Which cells a predicate over the columns of obs holds for, as a bool array: `cell_line == "CVCL_0023" and n_genes > 500`.

        The grammar is in SPEC.md, section 9. ArgumentError and NotFoundError point at the place in the text.

        >>> annblock.open(example_store).where('plate in ("plate1", "plate2") and n_genes >= 200').sum() > 0
        np.True_
        """
        if not isinstance(predicate, str):
            raise errors.ArgumentError(
                f"where takes a predicate over obs, like 'n_genes > 500', not a {type(predicate).__name__}: a mask chooses rows by itself"
            )
        bits = np.zeros((self.n_obs + 63) // 64, np.uint64)
        check(lib.annb_where(self._handle, name_bytes(predicate), ffi.from_buffer("uint64_t[]", bits), ffi.NULL, local.error), local.error)
        return np.unpackbits(bits.view(np.uint8), count=self.n_obs, bitorder="little").view(np.bool_)

    # ---- AnnData ----

    def to_anndata(self, rows: Any = None, genes: Any = None, *, backed: bool = False) -> anndata.AnnData:
        """An AnnData of `rows` and `genes` (all: None): the sidecar as anndata reads it, X and the other packed matrices from the store.

        Rows and genes are chosen as in `store[rows, genes]`: numbers, slices, masks, names.
        `backed=True`: the matrices are dask arrays that read rows from the store when they are computed (dask must be installed).
        """
        from .to_anndata import to_anndata

        return to_anndata(self, rows, genes, backed)

    def to_memory(self) -> anndata.AnnData:
        """The whole store as an AnnData in memory: `to_anndata()`."""
        return self.to_anndata()

    def __getattr__(self, name):
        if name in ELSEWHERE:
            raise AttributeError(f"a Store has no attribute {name!r}: {ELSEWHERE[name]}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # ---- looks ----

    def __repr__(self):
        if self.closed:
            return f"<annblock store {self.path}, closed>"
        what = f"{self._n_sources} stores as one" if self._several else f"generation {self.generation}"
        lines = [f"annblock store, n_obs × n_vars = {self.n_obs} × {self.n_vars}, {what}, {size(self.nbytes)}: {self.path}"]
        for label, names in (("matrices", self.matrices), ("obs", self.obs.columns), ("var", self.var.columns)):
            if names:
                lines.append(f"    {label}: {', '.join(map(repr, names))}")
        return "\n".join(lines)

    def _repr_html_(self):
        if self.closed:
            return f"<p>{html.escape(repr(self))}</p>"
        rows = [
            ("path", self.path),
            ("cells × genes", f"{self.n_obs:,} × {self.n_vars:,}"),
            ("generation", self.generation),
            ("size", size(self.nbytes)),
        ]
        for m in map(self.matrix, self.matrices):
            rows.append((m.name, f"{m.shape[0]:,} × {m.shape[1]:,} {m.dtype}, {nnz_text(m)} stored elements, {size(m.nbytes)}"))
        rows += [("obs", ", ".join(self.obs.columns)), ("var", ", ".join(self.var.columns))]
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(str(a))}</th><td style='text-align:left'>{html.escape(str(b))}</td></tr>"
            for a, b in rows
        )
        return f"<table><caption>annblock store</caption>{cells}</table>"


def asked_generation(generation):
    """For C: 0 is the newest."""
    if generation is None:
        return 0
    if int(generation) != generation or not 1 <= generation < 1 << 64:
        raise errors.ArgumentError(f"a generation is a number from 1 on, not {generation!r}")
    return int(generation)


def open_one(path, generation, check_records):
    options = ffi.new("annb_open_options *", {"generation": asked_generation(generation), "skip_checks": not check_records})
    out = ffi.new("annb_store **")
    check(lib.annb_store_open(path_bytes(os.path.abspath(os.fspath(path))), options, out, local.error), local.error)
    return out


def open_union(paths, generation, join, check_records):
    if generation is not None:
        raise errors.ArgumentError("a generation is of one store: give stores that are open, each at its own")
    if not paths:
        raise errors.ArgumentError("at least one store is needed")
    stores = [s if isinstance(s, Store) else Store(s, check_records=check_records) for s in paths]
    out, handles = ffi.new("annb_store **"), ffi.new("const annb_store *[]", [s._handle for s in stores])
    check(lib.annb_union_open(handles, len(stores), JOINS[join], out, local.error), local.error)
    return out


def reopen(sources, several, join, check_records, num_threads):
    if not several:
        return Store(*sources[0], check_records=check_records, num_threads=num_threads)
    stores = [Store(path, generation, check_records=check_records) for path, generation in sources]
    return Store(stores, join=join, check_records=check_records, num_threads=num_threads)


def nnz_text(matrix):
    return f"{'' if matrix.nnz_exact else 'at most '}{matrix.nnz:,}"


def size(n):
    """Bytes for a person."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024:
            return f"{n:.0f} B" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} TiB"
