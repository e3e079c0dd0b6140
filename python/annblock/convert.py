"""Packing `.h5ad` files and exporting them again. This part needs HDF5, which must have been there when the package was built."""
import warnings
from dataclasses import dataclass

from . import _c, errors
from ._c import path_bytes
from ._progress import Run, ignore, lock

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
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True)
class Packed:
    """What was packed: `n_obs` and `nnz`; of the store: `n_vars`, `n_parts`, the `generation` published; `notes`: sentences about what may surprise."""

    n_obs: int
    n_vars: int
    nnz: int
    generation: int
    n_parts: int
    notes: tuple[str, ...] = ()


def need_hdf5():
    if lib is None:
        raise ImportError(
            f"this build of annblock cannot pack or export, because HDF5 was missing ({WHY}). Install HDF5 with its headers "
            "(Debian: apt-get install libhdf5-dev) and reinstall: pip install --force-reinstall --no-binary annblock annblock. Reading works without."
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


def pack(paths, store, *, force=False, progress=True, **options):
    """Pack `.h5ad` files into the store `store`, a directory that is made: a `Packed`. `paths`: one path, or a list: each file becomes a part.

    `force`: an existing store gains a next generation. `threads`: 0 = one per processor; the bytes do not depend on it. `memory`: cap on
    buffers in bytes or like "512M" (the default). `segment_rows`: 0 = split near 2 GiB. `gene_order`: how records list genes, "detected"
    (small) or "source". Several files: `join` of other genes, None (they must be equal), "inner" or "outer"; `join_key`: the column of var
    that genes are matched by (default: names); `allow_duplicate_genes`. `progress`: a tqdm bar on a terminal or in a notebook. What may
    surprise is warned of. InputError, UnsupportedError, ExistsError, InputOutputError; after a failure or Ctrl-C nothing is left behind.

    >>> annblock.pack(example_h5ad, scratch / "packed.annblock").n_obs
    2000
    """
    need_hdf5()
    return convert(lib.annb_pack_many, "pack", paths, store, progress, force=force, **options)


def append(paths, store, *, progress=True, **options):
    """Add `.h5ad` files as parts to an existing store: a new generation; readers of older ones go on. Options as in `pack`.

    >>> annblock.pack(example_h5ad, scratch / "grows.annblock").n_parts
    1
    >>> annblock.append(example_h5ad, scratch / "grows.annblock").n_parts
    2
    """
    need_hdf5()
    return convert(lib.annb_append, "append", paths, store, progress, **options)


class Conversion(Run):
    def __init__(self, progress, label):
        super().__init__(progress, label)
        self.notes = []


def convert(
    function, label, paths, store, progress, force=False, threads=0, memory=0, segment_rows=0, gene_order="detected", join=None, join_key=None,
    allow_duplicate_genes=False,
):  # fmt: skip
    listed = [ffi.new("char[]", path_bytes(p)) for p in (paths if isinstance(paths, (list, tuple)) else [paths])]
    run = Conversion(progress, label)
    user = ffi.new_handle(run)
    key = ffi.new("char[]", join_key.encode()) if join_key is not None else ffi.NULL
    values = {"force": force, "n_threads": threads, "memory": size_of(memory), "segment_rows": segment_rows, "user": user}
    values |= {"progress": lib.annbpy_progress, "note": lib.annbpy_note, "allow_duplicate_genes": allow_duplicate_genes, "join_key": key}
    values |= {"gene_order": choice(gene_order, GENE_ORDERS, "gene_order"), "join": choice(join, JOINS, "join")}
    options, result, error = ffi.new("annb_pack_options *", values), ffi.new("annb_pack_result *"), ffi.new("annb_error *")
    with lock:
        status = function(ffi.new("const char *[]", listed), len(listed), path_bytes(store), options, result, error)
    finish(run, status, error)
    for note in run.notes:
        warnings.warn(note, stacklevel=3)
    return Packed(int(result.n_obs), int(result.n_vars), int(result.nnz), int(result.generation), int(result.n_parts), tuple(run.notes))


def choice(value, choices, what):
    if value not in choices:
        raise errors.ArgumentError(f"{what} is one of {', '.join(map(repr, choices))}, not {value!r}")
    return getattr(lib, choices[value])


def export(store, output, *, force=False, generation=None, memory=0, progress=True):
    """Export `store` (a path or a `Store`) to the `.h5ad` file `output`: the objects, types, values and attributes that were packed.

    `force`: replace an existing file once the new one is complete. `generation`: an older one. The rest as in `pack`.

    >>> annblock.export(example_store, scratch / "again.h5ad")
    >>> annblock.compare(example_h5ad, scratch / "again.h5ad")
    []
    """
    need_hdf5()
    from .store import Store, asked_generation

    if isinstance(store, Store):
        generation, store = generation or store.generation, store.path
    run = Run(progress, "export")
    user = ffi.new_handle(run)
    values = {"force": force, "generation": asked_generation(generation), "memory": size_of(memory), "user": user, "progress": lib.annbpy_progress}
    options, error = ffi.new("annb_export_options *", values), ffi.new("annb_error *")
    with lock:
        status = lib.annb_export(path_bytes(store), path_bytes(output), options, error)
    finish(run, status, error)


class Comparison(Run):
    def __init__(self):
        super().__init__(False, "compare")
        self.differences = []

    def add(self, path, what):
        self.differences.append(tuple(ffi.string(c).decode("utf-8", "surrogateescape") for c in (path, what)))
        return True


def compare(a, b):
    """The differences between two HDF5 files, object by object and value by value: a list of (path, what), empty when they are equal."""
    need_hdf5()
    run = Comparison()
    user, n, error = ffi.new_handle(run), ffi.new("uint64_t *"), ffi.new("annb_error *")
    with lock:
        status = lib.annb_compare(path_bytes(a), path_bytes(b), lib.annbpy_difference, user, n, error)
    finish(run, status, error)
    return run.differences
