"""Shuffled minibatches for training."""

import os
import sys
import warnings
import weakref
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

import numpy as np

from . import _open_loader as make
from . import errors
from ._c import check, ffi, lib, local
from .arguments import natural, positive, whole
from .batch import Csr, csr_to_torch, empty, wrap
from .epochs import Epochs
from .matrix import as_dtype
from .processes import in_worker, usual_threads, worker_info
from .store import JOINS, Store
from .store import open as open_store

POLL_MS = 200
STATE_VERSION = 1


@dataclass
class Wanted:
    """A matrix to deliver: its name, the type that C is asked for, the type that comes, the vocabulary as column numbers or None."""

    name: str
    asked: np.dtype
    dtype: np.dtype
    genes: np.ndarray | None
    n_cols: int


class Loader:
    """Minibatches of cells, shuffled in blocks, decoded ahead by threads: iterate it once per epoch.

    Each `for batch in loader` is the next epoch, in another order; batches are `Batch`es, dictionaries with attributes: `batch.X`,
    `batch.obs["cell_line"]` (codes, -1 = missing: `ignore_index=-1` of torch's losses, or `where="cell_line is not null"`), `batch.rows`.
    The order depends on seed, epoch and the parameters alone, not on threads, ranks or workers. When torch has been imported before, a
    Loader is a `torch.utils.data.IterableDataset`, for `DataLoader(loader, batch_size=None, num_workers=K)`; without workers threads do
    the same.

    stores: a path or `Store`, or a list of them, which are read as one. join: how their genes become one list, by name: None (they must
    be equal), "inner" (genes that all have) or "outer" (genes of all, zero where a store has none); labels are one by name. batch_size,
    block_size, fetch_factor: cells of a batch, cells that are read together, batches that are shuffled together (m, b and f of
    scDataset). strategy: "block", "sequential", "buffer" (sequential, shuffled within a fetch), "weighted" (by `weights`: one per row, or
    the name of a numeric obs column), "balanced" (each class of the obs column `balance`, by default the first label, as often as any
    other); or row batches of your own: a list of index arrays, or a function from the epoch to one. rows, where: only these cells; a
    mask, index array or names, and a predicate over obs. num_samples: cells of an epoch. genes: an ordered vocabulary of names or
    numbers; columns come in that order, unknown names are empty columns. matrices: names. labels: categorical columns of obs. output:
    "csr", "dense" (numpy), "torch" (dense tensors) or "torch_sparse". gene_order, sort_indices, dtype, allow_lossy: as in `Matrix.csr`;
    tensors are float32 by default. drop_last: no short batch at the end. rank, world_size: by default those of torch.distributed at the
    time of iterating. uneven: ranks get equal numbers of batches, by "pad" (repeating) or "drop". num_threads: that decode; by default
    one per processor, one in worker processes. transform: called with each batch. access: "auto", "mmap" or "pread". reuse_buffers: see
    below.

    The arrays of a batch are memory of the loader without a copy, and yours for as long as you hold any of them. With `reuse_buffers=True`
    they are written over as soon as the next batch is asked for (also at the end of an epoch): what is to stay longer must be copied, or it
    silently becomes other cells. Memory is flat then, whatever is held. In worker processes it has no effect: their queues hold batches.

    Of a batch of n cells, X is n × genes (csr_array with int32 indices, numpy array or tensor), rows is int64 of length n, each label int32
    of length n; as tensors labels are int64, as losses want them. ArgumentError, NotFoundError and RangeError say at once what cannot be
    meant; while iterating LossyError (a value that dtype cannot hold), CorruptError (a damaged record) and InputOutputError name file and
    row.

    >>> loader = annblock.Loader(example_store, batch_size=32, labels=["cell_line"])
    >>> len(loader)
    63
    >>> batch = next(iter(loader))
    >>> batch.X.shape, batch.obs["cell_line"].dtype
    ((32, 2400), dtype('int32'))
    >>> loader.categories["cell_line"][:2]
    ['CVCL_0023', 'CVCL_0131']
    """

    def __new__(cls, *args, **kwargs):
        if cls is Loader and sys.modules.get("torch") is not None:
            from .torch_loader import TorchLoader

            cls = TorchLoader
        return super().__new__(cls)

    def __init__(
        self, stores, batch_size=64, block_size=16, fetch_factor=256, strategy="block", *, join=None, rows=None, where=None, genes=None,
        matrices=("X",), labels=(), output="csr", gene_order="original", sort_indices=False, dtype=None, allow_lossy=False, drop_last=False,
        seed=0, rank=None, world_size=None, uneven="pad", num_threads=None, transform=None, pin_memory=False, weights=None, balance=None,
        num_samples=None, access="auto", io_threads=0, ring=0, reuse_buffers=False,
    ) -> None:  # fmt: skip
        self.store = the_store(stores, join)
        self.batch_size, self.block_size, self.fetch_factor = (
            positive(batch_size, "batch_size"),
            positive(block_size, "block_size"),
            positive(fetch_factor, "fetch_factor"),
        )
        self.output, self.dense = make.one_of(output, make.OUTPUTS, "output"), output in ("dense", "torch")
        if output.startswith("torch"):
            need_torch(output)
        make.one_of(access, make.ACCESS, "access"), make.one_of(uneven, make.UNEVEN, "uneven")
        self.access, self.uneven, self.io_threads, self.ring = access, uneven, natural(io_threads, "io_threads"), natural(ring, "ring")
        self.gene_order, self.sort_indices, self.allow_lossy = gene_order, sort_indices, allow_lossy
        self.drop_last, self.seed, self.num_samples = bool(drop_last), whole(seed, "seed") % (1 << 64), None
        if num_samples is not None:
            self.num_samples = natural(num_samples, "num_samples", 1 << 64, 1)
        check_ranks(rank, world_size)
        self.rank, self.world_size, self.num_threads = rank, world_size, num_threads
        self.transform, self.pin_memory, self.reuse_buffers = transform, pin_memory, bool(reuse_buffers)
        self.labels = [labels] if isinstance(labels, str) else list(labels)
        for name in self.labels:
            make.categorical(self.store, name)
        names = [matrices] if isinstance(matrices, str) else list(matrices)
        self.vocabulary = None if genes is None else make.vocabulary(genes).tolist()
        self.wanted = [self._want(name, dtype, genes, i == 0) for i, name in enumerate(names)]
        self.chosen = make.chosen_rows(self.store, rows, where)
        if self.store.n_obs and self.chosen is not None and not len(self.chosen):
            said = " and ".join(f"{name}={value!r}" for name, value in (("rows", rows), ("where", where)) if value is not None)
            warnings.warn(f"no cell is left by {shorten(said, 200)}: there will be no batches", stacklevel=2)
        self._set_strategy(strategy, weights, balance)
        self.epochs = Epochs()
        self._captured = None
        self._resume: dict[str, Any] | None = None
        self._forget()

    def _want(self, name, dtype, genes, first):
        matrix = self.store.matrix(name)
        usual = np.float32 if self.output.startswith("torch") else matrix.dtype if self.dense else matrix.sparse_dtype()
        comes = as_dtype(usual if dtype is None else dtype)
        numbers = make.gene_numbers(self.store, matrix, genes, first) if first or matrix.axis == "var" else None
        return Wanted(name, matrix.delivered(comes), comes, numbers, matrix.shape[1] if numbers is None else len(numbers))

    def _set_strategy(self, strategy, weights, balance):
        self.weights = self.codes = self.own = self.own_of_epoch = None
        if callable(strategy):
            self.strategy, self.own_of_epoch = "own", strategy
        elif not isinstance(strategy, str):
            self.strategy, self.own = "own", make.own_batches(strategy, self.batch_size)
        else:
            self.strategy = make.one_of(strategy, make.STRATEGIES, "strategy")
        if weights is not None and self.strategy != "weighted":
            raise errors.ArgumentError(f'weights need strategy="weighted", not {strategy!r}')
        if balance is not None and self.strategy != "balanced":
            raise errors.ArgumentError(f'balance needs strategy="balanced", not {strategy!r}')
        members = slice(None) if self.chosen is None else self.chosen.astype(np.int64)
        if self.strategy == "weighted":
            self.weights = make.row_weights(self.store, weights, self.chosen)
        if self.strategy == "balanced":
            column = balance or (self.labels[0] if self.labels else None)
            if column is None:
                raise errors.ArgumentError('strategy "balanced" needs balance=, the obs column whose classes are to come equally often')
            self.codes = np.ascontiguousarray(make.codes_of(self.store, column)[members])

    # ---- processes ----

    def _forget(self):
        """Nothing open in this process, nothing being iterated."""
        self._open: Any = None
        self._current: Any = None
        self._last: Any = None
        self._answers: dict[Any, Any] = {}

    def __getstate__(self):
        state = dict(self.__dict__)
        del state["_open"], state["_current"], state["_last"], state["_answers"]
        state["_captured"] = distributed() or self._captured
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._forget()

    def _place(self):
        """(rank, world, worker, workers) here and now."""
        rank, world = (self.rank, self.world_size) if self.world_size is not None else distributed() or self._captured or (0, 1)
        worker, workers = worker_of_process()
        return int(rank or 0), int(world), worker, workers

    def _threads(self, workers):
        if self.num_threads is not None:
            return positive(self.num_threads, "num_threads")
        return usual_threads(16)

    def _handle(self, place, own):
        """A C loader for this place: the one that is open, unless it is in use or of another process."""
        key = (os.getpid(), place)
        busy = self._current and self._current() is not None and not self._current().done
        if self._open and self._open[0] == key and not busy and self.own_of_epoch is None:
            return self._open[1]
        handle = self._new_handle(place, own)
        self._open = key, handle
        return handle

    def _new_handle(self, place, own):
        rank, world, worker, workers = place
        topology = {"rank": rank, "world": world, "worker": worker, "n_workers": workers}
        topology["uneven"] = getattr(lib, make.UNEVEN[self.uneven])
        self.own = own if own is not None else self.own
        return make.open_loader(self, topology, self._threads(workers))

    def _ask(self, what, function):
        """What a C loader of this rank without workers answers, opened for that: an iteration's own must stay where it is."""
        key = (what, self._place()[:2], self.epoch if self.own_of_epoch else None)
        if key not in self._answers:
            handle = self._new_handle((*key[1], 0, 1), self._own(self.epoch))
            self._answers[key] = function(handle)
        return self._answers[key]

    def _own(self, epoch):
        return make.own_batches(self.own_of_epoch(epoch), self.batch_size) if self.own_of_epoch else None

    # ---- epochs ----

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration will be."""
        if self._resume is not None:
            return self._resume["epoch"]
        _, _, worker, workers = self._place()
        return self.epochs.next(worker, workers)

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration, also in worker processes, be epoch `epoch`. Not needed: each iteration is the next epoch by itself."""
        epoch = natural(epoch, "an epoch", 1 << 64)
        self._resume = None
        self.epochs.set(epoch)

    def __len__(self) -> int:
        """Batches of an epoch for this rank (all its workers together)."""
        return self._ask("len", lambda handle: int(lib.annb_loader_len(handle)))

    def __iter__(self):
        place = self._place()
        worker, workers = place[2:]
        epoch, resume, self._resume = self.epoch, self._resume, None
        handle = self._handle(place, self._own(epoch))
        check(lib.annb_loader_set_epoch(handle, epoch, local.error), local.error)
        taken = 0
        if resume is not None and resume["state"]:
            state = bytes(resume["state"])
            check(lib.annb_loader_restore(handle, state, len(state), local.error), local.error)
            taken = steps_of(state)
        self.epochs.took(epoch, worker, workers)
        iteration = Iteration(self, handle, epoch, taken, resume)
        self._current = weakref.ref(iteration)
        self._last = iteration.progress
        return iteration

    # ---- state ----

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration is: after the batches that it has given; numbers and `bytes` (pickle, not JSON). In
        worker processes: of this worker (torchdata's StatefulDataLoader
        asks each). A plain DataLoader with workers does not tell its dataset what was consumed: use StatefulDataLoader, or no workers."""
        if self._resume is not None:
            return dict(self._resume)
        last = self._last
        if last is None or last.finished and not in_worker():
            return {"annblock": STATE_VERSION, "epoch": self.epoch, "state": None}
        return {"annblock": STATE_VERSION, "epoch": last.epoch, "state": last.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration go on from `state`; with another world size or number of workers too (from a state without workers)."""
        if not isinstance(state, dict) or state.get("annblock") != STATE_VERSION:
            raise errors.ArgumentError("this is not a state_dict of this release's annblock.Loader")
        self._resume = dict(state)
        self._last = None
        if not in_worker():
            self.epochs.set(int(state["epoch"]))

    # ---- what comes ----

    @property
    def categories(self) -> dict[str, list[str]]:
        """{label: list of its categories}: code i of a label means category i. Over several stores categories are united by name."""
        return dict(self._ask("categories", lambda handle: {name: label_categories(handle, i) for i, name in enumerate(self.labels)}))

    @property
    def genes(self) -> list:
        """The names (or numbers, as given) of the columns of X as they come."""
        if self.vocabulary is not None:
            return list(self.vocabulary)
        names = self.store.var_names
        order = self.store.matrix(self.wanted[0].name).gene_order() if self.gene_order == "stored" else None
        return list(names if order is None else names[order])

    def __repr__(self):
        n_obs, n_stores = self.store.n_obs, len(self.store.stores)
        chosen = n_obs if self.chosen is None else len(self.chosen)
        shape = f"batch_size={self.batch_size}, block_size={self.block_size}, fetch_factor={self.fetch_factor}, strategy={self.strategy!r}"
        return f"<annblock loader of {chosen} of {n_obs} cells in {n_stores} store(s): {shape}, output={self.output!r}>"


class Progress:
    """How far an iteration is; lives on when the iteration is gone."""

    def __init__(self, handle, epoch, taken, resume):
        self.handle, self.epoch, self.taken, self.resume = handle, epoch, taken, resume
        self.step = None  # of the last batch given
        self.finished = False

    def state(self):
        """The state's bytes for C."""
        if self.step is None and not self.finished:
            return self.resume["state"] if self.resume else None
        steps = self.step + 1 - self.taken if self.step is not None else 0
        size, error = ffi.new("size_t *"), local.error
        status = lib.annb_loader_state_at(self.handle, steps, ffi.NULL, size, error)
        if status not in (0, lib.ANNB_ECAPACITY):
            check(status, error)
        data = ffi.new("char[]", size[0])
        check(lib.annb_loader_state_at(self.handle, steps, data, size, error), error)
        return bytes(ffi.buffer(data, size[0]))


class Iteration:
    """One epoch."""

    def __init__(self, loader, handle, epoch, taken, resume):
        self.progress = Progress(handle, epoch, taken, resume)
        self.handle, self.done = handle, False
        self.transform, self.pin = loader.transform, loader.pin_memory and loader.output.startswith("torch")
        self.labels, self.tensor, self.matrices = loader.labels, None, []
        if loader.output.startswith("torch"):
            import torch

            self.tensor = torch.from_numpy
        for m in loader.wanted:
            self.matrices.append((m.name, m.dtype, self.maker(loader, m)))
        self.ready, self.loader = ffi.new("bool *"), loader
        self.reused = empty() if loader.reuse_buffers and not in_worker() else None

    def maker(self, loader, m):
        if loader.dense:
            return None
        return csr_to_torch(m.n_cols) if loader.output == "torch_sparse" else Csr(m.n_cols, loader.sort_indices)

    def __iter__(self):
        return self

    def __next__(self):
        if self.done:
            raise StopIteration
        held, ready, error = self.reused or empty(), self.ready, local.error
        lib.annb_batch_release(held)
        ready[0] = False
        while not ready[0]:  # between the calls Python sees to signals
            status = lib.annbpy_loader_next(self.handle, POLL_MS, held, ready, error)
            if status:
                self.done = True
                check(status, error)
        if not held.n_rows:
            self.done = self.progress.finished = True
            raise StopIteration
        self.progress.step = held.step
        batch = wrap(held, self.matrices, self.labels, self.tensor, self.reused and self.handle)
        if self.pin:
            batch = batch.pin_memory()
        return batch if self.transform is None else self.transform(batch)


# ---- helpers ----


def the_store(stores, join):
    """What is to be read, as one `Store`."""
    if isinstance(stores, (list, tuple)) and len(stores) == 1:
        stores = stores[0]
    if isinstance(stores, Store) and join in JOINS:
        return stores
    return open_store(list(stores) if isinstance(stores, tuple) else stores, join=join)


def need_torch(output):
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f'output={output!r} needs the torch package ({error}): pip install torch, or choose output "csr" or "dense"'
        ) from None


def check_ranks(rank, world_size):
    """One without the other would be ignored, or the same for all processes."""
    if rank is not None and world_size is None:
        raise errors.ArgumentError("rank needs world_size, the number of ranks")
    if rank is None and world_size not in (None, 1):
        raise errors.ArgumentError("world_size needs rank, the number of this one from 0 on")
    if world_size is not None:
        natural(rank or 0, "rank"), positive(world_size, "world_size")


def distributed():
    """(rank, world) of torch.distributed when that is there and initialised, else None."""
    torch = sys.modules.get("torch")
    dist = getattr(torch, "distributed", None)
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    return dist.get_rank(), dist.get_world_size()


def worker_of_process():
    """(worker, workers) of a DataLoader's worker process; (0, 1) elsewhere."""
    info = worker_info()
    return (info.id, info.num_workers) if info is not None else (0, 1)


def steps_of(state):
    """Steps that the legs of a state have taken together (the layout is in sampler.h)."""
    sources, legs = np.frombuffer(state, np.uint32, 2, 12).tolist()
    table = np.frombuffer(state, np.dtype([("world", "<u4"), ("workers", "<u4"), ("steps", "<u8")]), legs, 88 + 32 * sources)
    return int(table["steps"].sum())


def label_categories(handle, label):
    n, chars, length = ffi.new("uint64_t *"), ffi.new("const char **"), ffi.new("uint64_t *")
    check(lib.annb_loader_label(handle, label, n, local.error), local.error)
    found = []
    for code in range(n[0]):
        check(lib.annb_loader_category(handle, label, code, chars, length, local.error), local.error)
        found.append(bytes(ffi.buffer(chars[0], length[0])).decode("utf-8", "surrogateescape"))
    return found
