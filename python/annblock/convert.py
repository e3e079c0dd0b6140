"""Packing `.h5ad` files and exporting them again. This part needs HDF5, which must have been there when the package was built."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _c, errors
from ._c import path_bytes
from ._progress import Run, alone, ignore
from .indexing import resolve
from .store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .store import Path

try:
    from ._convert import ffi, lib
except ImportError as error:
    ffi = lib = None
    WHY = str(error)


def annbpy_progress(user, stage, done, total):
    run = ffi.from_handle(user)
    return run.guard(run.step, ffi.string(stage).decode("utf-8", "replace"), done, total)


def annbpy_note(user, note):
    ffi.from_handle(user).notes.append(ffi.string(note).decode("utf-8", "replace"))


def annbpy_difference(user, path, what):
    run = ffi.from_handle(user)
    return run.guard(run.add, path, what)


if lib is not None:
    ffi.def_extern(onerror=ignore)(annbpy_progress)
    ffi.def_extern(onerror=ignore)(annbpy_difference)
    ffi.def_extern(onerror=ignore)(annbpy_note)

GENE_ORDERS = {"detected": "ANNB_GENE_ORDER_DETECTED", "source": "ANNB_GENE_ORDER_SOURCE"}
JOINS = {None: "ANNB_JOIN_NONE", "inner": "ANNB_JOIN_INNER", "outer": "ANNB_JOIN_OUTER"}
COMPRESSIONS = {"source": "ANNB_COMPRESSION_SOURCE", "none": "ANNB_COMPRESSION_NONE", "gzip": "ANNB_COMPRESSION_GZIP"}
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True)
class Packed:
    """What was packed: `n_obs`, `nnz` and `n_matrices`; of the store: `n_vars`, `n_parts`, the `generation` published; `notes`: sentences
    about what may surprise."""

    n_obs: int
    n_vars: int
    nnz: int
    generation: int
    n_parts: int
    n_matrices: int
    notes: tuple[str, ...] = ()


def need_hdf5():
    if lib is None:
        raise ImportError(
            f"this build of annblock cannot pack or export, because HDF5 was missing ({WHY}). Install HDF5 with its headers "
            "(Debian: apt-get install libhdf5-dev libdeflate-dev) and reinstall: "
            "pip install --force-reinstall --no-binary annblock annblock. Reading works without."
        )


def size_of(value):
    """Bytes of a number or of text like "512M"."""
    if not isinstance(value, str):
        return int(value or 0)
    number, unit = (value[:-1], value[-1].upper()) if value[-1:].upper() in UNITS else (value, "")
    try:
        return int(float(number) * UNITS.get(unit, 1))
    except ValueError:
        raise errors.ArgumentError(f"{value!r} is not a size: give bytes, or text like '512M' or '2G'") from None


def finish(run, status, error):
    run.close(status, error, lambda e: _c.exception(e, ffi.string))


def pack(
    paths: Path | Sequence[Path], store: Path, *, force: bool = False, threads: int = 0, memory: int | str = 0, segment_rows: int = 0,
    gene_order: str = "detected", matrices: str | Sequence[str] | None = None, join: str | None = None, join_key: str | None = None,
    allow_duplicate_genes: bool = False, shuffle: int | None = None, progress: bool | str = True, in_process: bool = False,
) -> Packed:  # fmt: skip
    """Pack `.h5ad` files into the store `store`, a directory that is made: a `Packed`. `paths`: one path, or a list of parts.

    `force`: an existing store gains a next generation. `threads`: 0 = one per processor; the bytes do not depend on it. `memory`: cap on
    buffers in bytes or like "512M" (the default). `segment_rows`: 0 = split near 2 GiB. `gene_order`: how records list genes, "detected"
    (small) or "source". `matrices`: which are packed, names like "X", "layers/counts", "raw/X", "obsm/X_pca", or "all"; the rest stays in
    the sidecar. Several files: `join` of other genes, None (they must be equal), "inner" or "outer"; `join_key`: the column of var
    that genes are matched by (default: names); `allow_duplicate_genes`. `shuffle`: a seed, to store each file's cells in a random order
    that it decides; `export` restores the file's own. `progress`: a tqdm bar on a terminal or in a notebook. What may
    surprise is warned of. HDF5 may crash on a damaged file, so a child process does the work, and its crash is an InputError; `in_process`:
    without one, where a program must not fork. InputError, UnsupportedError, ExistsError, InputOutputError; after a failure or Ctrl-C
    nothing is left behind. Ctrl-C that comes when the store is being published is too late: the call returns, with a warning.

    >>> annblock.pack(example_h5ad, scratch / "packed.annblock").n_obs
    2000
    """
    need_hdf5()
    return convert(
        lib.annb_pack_many, "pack", paths, store, progress, force, threads, memory, segment_rows, gene_order, matrices, join, join_key,
        allow_duplicate_genes, shuffle, in_process,
    )  # fmt: skip


def append(
    paths: Path | Sequence[Path], store: Path, *, threads: int = 0, memory: int | str = 0, segment_rows: int = 0,
    gene_order: str = "detected", matrices: str | Sequence[str] | None = None, join: str | None = None, join_key: str | None = None,
    allow_duplicate_genes: bool = False, shuffle: int | None = None, progress: bool | str = True, in_process: bool = False,
) -> Packed:  # fmt: skip
    """Add `.h5ad` files as parts to an existing store: a new generation; readers of older ones go on. Options as in `pack`.

    `matrices`: by default those that all parts of the store have. `join="inner"` keeps the store's genes, "outer" adds new ones.
    NotAStoreError; the rest as in `pack`.

    >>> annblock.pack(example_h5ad, scratch / "grows.annblock").n_parts
    1
    >>> annblock.append(example_h5ad, scratch / "grows.annblock").n_parts
    2
    """
    need_hdf5()
    need_store(store, "append(paths, store)")
    return convert(
        lib.annb_append, "append", paths, store, progress, False, threads, memory, segment_rows, gene_order, matrices, join, join_key,
        allow_duplicate_genes, shuffle, in_process,
    )  # fmt: skip


def need_store(path, call):
    """A file where the store is expected is most often the other argument."""
    if os.path.isfile(path):
        raise errors.NotAStoreError(f"{os.fspath(path)}: is a file, not a store: the order is {call}", path=os.fspath(path))


class Conversion(Run):
    def __init__(self, progress, label):
        super().__init__(progress, label)
        self.notes = []


def convert(
    function, label, paths, store, progress, force, threads, memory, segment_rows, gene_order, matrices, join, join_key,
    allow_duplicate_genes, shuffle, in_process,
):  # fmt: skip
    listed = [ffi.new("char[]", path_bytes(p)) for p in inputs(paths)]
    run = Conversion(progress, label)
    user = ffi.new_handle(run)
    key = ffi.new("char[]", join_key.encode()) if join_key is not None else ffi.NULL
    values = {"force": force, "n_threads": threads, "memory": size_of(memory), "segment_rows": segment_rows, "user": user}
    values |= {"progress": lib.annbpy_progress, "note": lib.annbpy_note, "allow_duplicate_genes": allow_duplicate_genes, "join_key": key}
    names = c_strings([] if matrices is None else [matrices] if isinstance(matrices, str) else matrices)
    values |= {"matrices": names.array, "n_matrices": len(names)}
    values |= {"gene_order": choice(gene_order, GENE_ORDERS, "gene_order"), "join": choice(join, JOINS, "join")}
    values |= {"shuffle": shuffle is not None, "seed": seed_of(shuffle), "in_process": in_process}
    options, result, error = ffi.new("annb_pack_options *", values), ffi.new("annb_pack_result *"), ffi.new("annb_error *")
    with alone(), run.publishing():
        status = function(ffi.new("const char *[]", listed), len(listed), path_bytes(store), options, result, error)
    finish(run, status, error)
    if result.n_left:
        why = ffi.string(result.left.message).decode("utf-8", "replace")
        run.notes.append(f"{result.n_left} matrices cannot be packed and stay in the sidecar. The first: {why}")
    tell(run.notes, 4)
    numbers = (result.n_obs, result.n_vars, result.nnz, result.generation, result.n_parts, result.n_matrices)
    n_obs, n_vars, nnz, generation, n_parts, n_matrices = map(int, numbers)
    return Packed(n_obs, n_vars, nnz, generation, n_parts, n_matrices, tuple(run.notes))


def inputs(paths):
    """The paths of one file or of several."""
    if hasattr(paths, "write_h5ad"):
        raise errors.ArgumentError("an AnnData in memory is not packed: write it with write_h5ad and give the path of that file")
    many = hasattr(paths, "__iter__") and not isinstance(paths, (str, bytes, os.PathLike))
    return list(paths) if many else [paths]


def seed_of(shuffle):
    if isinstance(shuffle, bool) or shuffle is not None and not (int(shuffle) == shuffle and 0 <= shuffle < 1 << 64):
        raise errors.ArgumentError(f"shuffle is a seed, a number from 0 on, not {shuffle!r}")
    return int(shuffle or 0)


def tell(notes, depth):
    for note in notes:
        warnings.warn(note, stacklevel=depth)


class c_strings:
    """An array of C strings: `array`, NULL when there are none."""

    def __init__(self, strings):
        self.held = [ffi.new("char[]", _c.name_bytes(s)) for s in strings]
        self.array = ffi.new("const char *[]", self.held) if self.held else ffi.NULL

    def __len__(self):
        return len(self.held)


def choice(value, choices, what):
    if value not in choices:
        raise errors.ArgumentError(f"{what} is one of {', '.join(map(repr, choices))}, not {value!r}")
    return getattr(lib, choices[value])


def annotate(
    store: Path, source: Path, *, part: int | None = None, memory: int | str = 0, progress: bool | str = True, in_process: bool = False
) -> int:
    """Give the store (or its part `part`) the metadata of the `.h5ad` file `source`, which has the same cells and genes.

    Columns of obs and var and all that is not packed are replaced; the packed matrices stay. Returns the generation that this makes.
    `in_process` as in `pack`. InputError when cells or genes are others; NotAStoreError.

    >>> annblock.pack(example_h5ad, scratch / "annotated.annblock").generation
    1
    >>> annblock.annotate(scratch / "annotated.annblock", example_h5ad) == 2
    True
    """
    need_hdf5()
    need_store(store, "annotate(store, source)")
    run = Conversion(progress, "annotate")
    user = ffi.new_handle(run)
    values = {"memory": size_of(memory), "progress": lib.annbpy_progress, "note": lib.annbpy_note, "user": user}
    values |= {"one_part": part is not None, "part": part or 0, "in_process": in_process}
    options, generation, error = ffi.new("annb_annotate_options *", values), ffi.new("uint64_t *"), ffi.new("annb_error *")
    with alone(), run.publishing():
        status = lib.annb_annotate(path_bytes(store), path_bytes(source), options, generation, error)
    finish(run, status, error)
    tell(run.notes, 3)
    return int(generation[0])


def export(
    store: Path | Store, output: Path, *, force: bool = False, generation: int | None = None, part: int | None = None, rows: Any = None,
    where: str | None = None, genes: Any = None, skip: Sequence[str] = (), compression: str = "source", level: int = 0, threads: int = 0,
    memory: int | str = 0, progress: bool | str = True, in_process: bool = False,
) -> None:  # fmt: skip
    """Export `store` (a path or a `Store`) to the `.h5ad` file `output`: the objects, types, values and attributes that were packed.

    `force`: replace an existing file once the new one is complete. `generation`: an older one. `part`: only that part. `rows`, `where`,
    `genes`: only these cells (numbers, slices, masks, names; a predicate; of `part` where it is given) and genes (numbers or names, of the
    store), in that order; `skip`: paths of objects to leave out. `compression` of the packed matrices: "source", "none" or "gzip" with
    `level`. The rest as in `pack`.
    ExistsError, NotAStoreError, CorruptError, RangeError, NotFoundError; Ctrl-C as in `pack`: nothing is left behind, or all is there.

    >>> annblock.export(example_store, scratch / "again.h5ad")
    >>> annblock.compare(example_h5ad, scratch / "again.h5ad")
    []
    >>> annblock.export(example_store, scratch / "some.h5ad", rows=[5, 3], genes=["XBP1"], skip=["uns"])
    """
    need_hdf5()
    opened = store if isinstance(store, Store) else Store(store, generation)
    ranges, listed = row_ranges(opened, rows, part), c_strings(skip)
    run = Run(progress, "export")
    user = ffi.new_handle(run)
    with TemporaryDirectory() as scratch:
        files = [ffi.new("char[]", path) for path in (gene_file(opened, genes, part, scratch), where and _c.name_bytes(where)) if path]
        subset = {"ranges": ranges, "n_ranges": len(ranges) if ranges else 0, "skip": listed.array, "n_skip": len(listed)}
        subset |= {"genes_file": files[0]} if genes is not None else {}
        subset |= {"where": files[-1]} if where else {}
        values = {"force": force, "generation": opened.generation, "memory": size_of(memory), "user": user, "progress": lib.annbpy_progress}
        values |= {"one_part": part is not None, "part": part or 0, "n_threads": threads, "level": level, "subset": subset}
        values |= {"compression": choice(compression, COMPRESSIONS, "compression"), "in_process": in_process}
        options, error = ffi.new("annb_export_options *", values), ffi.new("annb_error *")
        with alone(), run.publishing():
            status = lib.annb_export(path_bytes(opened.path), path_bytes(output), options, error)
    finish(run, status, error)


def row_ranges(store, rows, part):
    """`rows` (of `part`, when that is given) as ranges in their order; NULL for all."""
    if rows is None:
        return ffi.NULL
    if part is not None and not 0 <= part < store.n_parts:
        raise errors.RangeError(f"there is no part {part}: the store has {store.n_parts}, counted from 0")
    first, n = (0, store.n_obs) if part is None else (store.parts[part].first_row, store.parts[part].n_obs)
    found = resolve(rows, n, lambda: store.obs_names[first : first + n], "row").astype(np.int64)
    breaks = np.flatnonzero(np.diff(found) != 1) + 1
    first, last = np.r_[0, breaks][: len(found)], np.r_[breaks - 1, len(found) - 1][-len(found) :] if len(found) else []
    return ffi.new("annb_row_range[]", [(int(found[a]), int(found[b]) + 1) for a, b in zip(first, last)] or [(0, 0)])


def gene_file(store, genes, part, scratch):
    """A file that names `genes`, one a line; None for all."""
    if genes is None:
        return None
    names = store.var_names
    found = resolve(genes, store.n_vars, lambda: names, "gene").astype(np.int64)
    repeated, taken = set(names[names.duplicated()]), set(names)
    path = os.path.join(scratch, "genes")
    with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        file.writelines(f"{gene_line(int(i), names[i], repeated, taken, part)}\n" for i in found)
    return os.fsencode(path)


def gene_line(number, name, repeated, taken, part):
    """What means one gene in a line: its name, or the number of its column where the name cannot; with zeros, if that is a name too."""
    if isinstance(name, str) and name and name not in repeated and not name.startswith("\ufeff") and not set(name) & set("\n\r\0"):
        return name
    if part is not None:
        raise errors.ArgumentError(f"the gene {name!r} cannot be found in a part by this name: leave `genes` or `part` out")
    line = str(number)
    while line in taken:
        line = "0" + line
    return line


class Comparison(Run):
    def __init__(self):
        super().__init__(False, "compare")
        self.differences = []

    def add(self, path, what):
        self.differences.append(tuple(ffi.string(c).decode("utf-8", "surrogateescape") for c in (path, what)))
        return True


def compare(a: Path, b: Path) -> list[tuple[str, str]]:
    """The differences between two HDF5 files, object by object and value by value: a list of (path, what), empty when they are equal.

    InputError for what is no HDF5 file, InputOutputError for what cannot be read.

    >>> annblock.compare(example_h5ad, example_h5ad)
    []
    """
    need_hdf5()
    run = Comparison()
    user, n, error = ffi.new_handle(run), ffi.new("uint64_t *"), ffi.new("annb_error *")
    with alone():
        status = lib.annb_compare(path_bytes(a), path_bytes(b), lib.annbpy_difference, user, n, error)
    finish(run, status, error)
    return run.differences
