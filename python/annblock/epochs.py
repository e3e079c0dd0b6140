"""Which epoch comes next, shared by all processes that iterate one loader."""

import multiprocessing.context
from multiprocessing.sharedctypes import RawArray

import numpy as np

from . import errors

MAX_WORKERS = 256


def place(workers, worker=0):
    """Slots of the workers 0 … workers-1 of `workers` stand together, after those of fewer workers."""
    return 1 + workers * (workers - 1) // 2 + worker


class Epochs:
    """A counter per worker, and per number of workers, in memory that forked and spawned workers share.

    Worker processes that end with the epoch would otherwise all begin with epoch 0 again. A worker takes the epoch after the one it
    took last; what other numbers of workers took counts too, so that changing `num_workers` repeats nothing. Slot 0 holds what
    `set` said last.
    """

    def __init__(self):
        self._keep(RawArray("Q", place(MAX_WORKERS + 1)))

    def _keep(self, shared):
        self._shared = shared
        self._slots = np.frombuffer(shared, np.uint64)

    def next(self, worker, workers):
        """The epoch that this worker would take."""
        if workers > MAX_WORKERS:
            raise errors.ArgumentError(f"at most {MAX_WORKERS} workers, not {workers}")
        first, end = place(workers), place(workers + 1)
        others = max(int(self._slots[:first].max()), int(self._slots[end:].max(initial=0)))
        return max(others, int(self._slots[first + worker]))

    def took(self, epoch, worker, workers):
        self._slots[place(workers, worker)] = epoch + 1

    def set(self, epoch):
        self._slots[1:] = 0
        self._slots[0] = epoch

    def __getstate__(self):
        if multiprocessing.context.get_spawning_popen() is not None:
            return self._shared
        return np.array(self._slots)

    def __setstate__(self, state):
        if isinstance(state, np.ndarray):
            self._keep(RawArray("Q", place(MAX_WORKERS + 1)))
            self._slots[:] = state
        else:
            self._keep(state)
