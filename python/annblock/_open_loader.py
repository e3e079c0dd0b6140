"""From what the caller of Loader said to the options of the C loader."""

import warnings

import numpy as np

from . import errors, indexing
from ._c import check, ffi, lib, local, name_bytes
from .errors import near
from .matrix import fetch_options

STRATEGIES = {"block": "BLOCK", "sequential": "SEQUENTIAL", "buffer": "BUFFER", "weighted": "WEIGHTED", "balanced": "BALANCED"}
ACCESS = {"auto": "AUTO", "mmap": "MMAP", "pread": "PREAD"}
UNEVEN = {"pad": "ANNB_PAD", "drop": "ANNB_DROP"}
OUTPUTS = ("csr", "dense", "torch", "torch_sparse")
NONE = 0xFFFFFFFF


def one_of(value, choices, what):
    if value not in choices:
        raise errors.ArgumentError(f"{what} is one of {', '.join(map(repr, choices))}, not {value!r}")
    return value


# ---- rows ----


def chosen_rows(store, rows, where):
    """The rows that `rows` and `where` leave, ascending; None for all of them."""
    mask = None
    if where is not None and not isinstance(where, str):
        raise errors.ArgumentError(f"where is a predicate over obs, like 'n_genes > 500', not {kind_of(where)}: a mask goes into rows=")
    if where is not None:
        mask = store.where(where)
    if rows is None:
        return None if mask is None else np.flatnonzero(mask).astype(np.uint64)
    found = np.sort(indexing.resolve(rows, store.n_obs, lambda: store.obs_names, "row"))
    twice = found[1:] == found[:-1]
    if twice.any():
        raise errors.ArgumentError(f"row {int(found[1:][twice][0])} is there more than once in rows; draw rows more often with weights")
    return found if mask is None else found[mask[found.astype(np.int64)]]


def kind_of(value):
    """What a value is, for a message."""
    return "None" if value is None else f"a {type(value).__name__}"


# ---- labels ----


def categorical(store, name):
    """The categorical obs column `name`. NotFoundError, ArgumentError."""
    column = store.obs.column(name)
    if column.kind != "categorical":
        raise errors.ArgumentError(f"{store.path}: column {name!r} of obs is not categorical; labels are")
    return column


def codes_of(store, name):
    """The codes of all rows, as int32."""
    return categorical(store, name).values.astype(np.int32)


# ---- weights ----


def row_weights(store, weights, chosen):
    """The weights of the rows that are left, as float64: of a numeric obs column, or one for each row. Missing ones are refused."""
    n_rows = store.n_obs
    if isinstance(weights, str):
        weights = column_weights(store, weights)
    if weights is None or np.shape(weights) != (n_rows,):
        raise errors.ArgumentError(
            f'strategy "weighted" needs weights=, one number for each of the {n_rows} rows or the name of an obs column'
        )
    numbers = as_numbers(weights)
    rows = np.arange(n_rows) if chosen is None else chosen.astype(np.int64)
    numbers = np.ascontiguousarray(numbers[rows])
    bad = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0)))
    if len(bad):
        row, value = int(rows[bad[0]]), numbers[bad[0]]
        what = "is missing or NaN" if np.isnan(value) else f"is {value:g}"
        raise errors.ArgumentError(f"weights: the weight of row {row} {what}; weights must be finite and not negative", row=row)
    return numbers


def column_weights(store, name):
    """A numeric obs column as float64, NaN where a value is missing."""
    column = store.obs.column(name)
    if column.kind != "fixed":
        raise errors.ArgumentError(f"{store.path}: column {name!r} of obs is a {column.kind} column; weights need one of numbers")
    values = column.values.astype(np.float64)
    if column.missing is not None:
        values[column.missing] = np.nan
    return values


def as_numbers(weights):
    try:
        return np.asarray(weights, np.float64)
    except (TypeError, ValueError) as error:
        raise errors.ArgumentError(f"weights are numbers, one for each row: {error}") from None


# ---- genes ----


def vocabulary(genes):
    """`genes` as an array of names or numbers; one name or number is a list of one. None for all genes."""
    if genes is None:
        return None
    listed = np.atleast_1d(np.asarray(genes))
    if listed.ndim != 1 or len(listed) and listed.dtype.kind not in "iuUOT":
        raise errors.ArgumentError(
            f"genes are names or column numbers, not {listed.ndim}-dimensional {listed.dtype} values (of a mask: numpy.flatnonzero(mask))"
        )
    return listed


def gene_numbers(store, matrix, genes, say=True):
    """The column of each gene of the vocabulary `genes` (names or numbers), ANNB_NONE for genes that are not there."""
    listed = vocabulary(genes)
    if listed is None:
        return None
    if listed.dtype.kind in "iu" or not len(listed):
        n = matrix.shape[1]
        if len(listed) and (listed.max() >= n or listed.min() < -1):
            raise errors.RangeError(
                f"genes: there is no gene {int(listed.max() if listed.max() >= n else listed.min())}, there are {n} (-1 = an empty column)"
            )
        return once(listed, np.where(listed < 0, NONE, listed).astype(np.uint32))
    names = store.var_names
    if matrix.axis != "var":
        raise errors.ArgumentError(f"the columns of {matrix.name!r} are not the genes of var: give genes by number")
    if not names.is_unique:
        twice = set(names[names.duplicated()]).intersection(listed.tolist())
        if twice:
            raise errors.ArgumentError(f"genes: {min(twice)!r} is the name of more than one gene in var; give numbers")
    found = names.get_indexer(listed) if names.is_unique else names.get_indexer_for(listed)
    unknown = listed[found < 0]
    if len(unknown) and say:
        some = ", ".join(map(str, unknown[:5])) + (", …" if len(unknown) > 5 else "") + near(unknown[0], names)
        warnings.warn(f"{len(unknown)} of {len(listed)} genes are not in {store.path}: their columns are empty ({some})", stacklevel=5)
    return once(listed, np.where(found < 0, NONE, found).astype(np.uint32))


def once(listed, numbers):
    """The column numbers; ArgumentError when one that is there stands among them twice, which names the gene as it was asked for."""
    known = np.flatnonzero(numbers != NONE)
    _, first = np.unique(numbers[known], return_index=True)
    if len(first) < len(known):
        again = np.setdiff1d(np.arange(len(known)), first)[0]
        raise errors.ArgumentError(f"genes: {listed[known[again]]!s} is asked for twice; each gene can be one column only")
    return numbers


# ---- the C structures ----


class Options:
    """annb_loader_options and all that they point to, which must live until the loader is open."""

    def __init__(self, spec, topology, threads):
        self.keep = []
        self.c = ffi.new("annb_loader_options *")
        self.c.topology = topology
        self.c.n_threads, self.c.n_io_threads, self.c.n_ring = threads, spec.io_threads, spec.ring
        self.c.reuse = spec.reuse_buffers
        self.c.access = getattr(lib, "ANNB_ACCESS_" + ACCESS[spec.access])
        self.set_matrices(spec)
        self.set_labels(spec.labels)
        self.set_sampler(spec)

    def array(self, kind, values):
        self.keep.append(values)
        return ffi.from_buffer(kind, values)

    def new(self, kind, value):
        self.keep.append(ffi.new(kind, value))
        return self.keep[-1]

    def set_matrices(self, spec):
        listed = []
        for m in spec.wanted:
            fetch = fetch_options(m.asked, spec.sort_indices, spec.gene_order, spec.allow_lossy, False)
            genes = self.array("uint32_t[]", m.genes) if m.genes is not None else ffi.NULL
            n = len(m.genes) if m.genes is not None else 0
            name = self.new("char[]", name_bytes(m.name))
            listed.append({"name": name, "dense": spec.dense, "fetch": fetch[0], "genes": genes, "n_genes": n})
        self.c.matrices = self.new("annb_loader_matrix[]", listed)
        self.c.n_matrices = len(listed)

    def set_labels(self, labels):
        names = [self.new("char[]", name_bytes(n)) for n in labels]
        self.c.labels = self.new("const char *[]", names)
        self.c.n_labels = len(names)

    def set_sampler(self, spec):
        s = self.c.sampler
        s.seed, s.block_size, s.batch_size, s.fetch_factor = spec.seed, spec.block_size, spec.batch_size, spec.fetch_factor
        s.drop_last, s.num_samples = spec.drop_last, spec.num_samples or 0
        s.strategy = getattr(lib, "ANNB_SAMPLE_" + ("OWN" if spec.own is not None else STRATEGIES[spec.strategy]))
        if spec.chosen is not None:
            s.rows = self.row_set(spec.chosen, spec.store.n_obs)
        if spec.weights is not None:
            s.weights, s.n_weights = self.array("double[]", spec.weights), len(spec.weights)
        if spec.codes is not None:
            s.codes, s.n_codes = self.array("int32_t[]", spec.codes), len(spec.codes)
        if spec.own is not None:
            offsets, rows = spec.own
            s.own.n_batches = len(offsets) - 1
            s.own.offsets, s.own.rows = self.array("uint64_t[]", offsets), self.array("uint64_t[]", rows)

    def row_set(self, chosen, n_rows):
        out, error = ffi.new("annb_row_set **"), local.error
        check(lib.annb_row_set_of_list(ffi.from_buffer("uint64_t[]", chosen), len(chosen), n_rows, out, error), error)
        self.keep.append(ffi.gc(out[0], lib.annb_row_set_close))
        return self.keep[-1]


def open_loader(spec, topology, threads):
    """A C loader over the store, which it keeps open."""
    options, out, error = Options(spec, topology, threads), ffi.new("annb_loader **"), local.error
    handle = spec.store._handle
    check(lib.annb_loader_open(ffi.new("const annb_store *[]", [handle]), 1, options.c, out, error), error)
    return ffi.gc(out[0], Closer(handle))


class Closer:
    """Closes a C loader; holds what must stay open until then."""

    def __init__(self, handle):
        self.handle = handle

    def __call__(self, loader):
        lib.annb_loader_close(loader)


def own_batches(batches, batch_size):
    """(offsets, rows) of the caller's own list of row batches."""
    listed = [np.asarray(b, np.uint64).reshape(-1) for b in batches]
    long = [i for i, b in enumerate(listed) if len(b) > batch_size]
    if long:
        raise errors.ArgumentError(f"batch {long[0]} of the strategy has {len(listed[long[0]])} rows, batch_size is {batch_size}")
    offsets = np.zeros(len(listed) + 1, np.uint64)
    offsets[1:] = np.cumsum([len(b) for b in listed], dtype=np.uint64)
    return offsets, np.concatenate([*listed, np.empty(0, np.uint64)])
