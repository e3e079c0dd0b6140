"""Our order of cells for annbatch's Loader. Needs annbatch 0.2 or later (Python 3.12 or later).

    loader = annbatch.Loader(batch_sampler=Sampler(batch_size=64, block_size=16, fetch_factor=256))

annbatch's Loader takes its matrices as zarr arrays, CSR datasets of anndata, scipy's csr or numpy arrays only: a store's rows go in as what
`store[rows]` or `to_anndata` give, in memory; a `Matrix` itself is refused by its `add_dataset`.
"""

import annbatch.abc
import numpy as np

from .. import errors
from .._c import ffi, lib
from .._open_loader import STRATEGIES, one_of
from .._sampler import Order
from ..processes import worker_info

NO_STORE = "0" * 32


class Sampler(annbatch.abc.Sampler):
    """Block shuffling in fetches, as `annblock.Loader` does it: each pass is the next epoch, a pure function of the seed.

    `mask` (a slice of the observations) is heeded. `rng` is not used: the order comes from `seed`. Strategies: "block", "sequential",
    "buffer".
    Each load request is one fetch: the rows of `fetch_factor` batches in their order. Workers of a torch DataLoader share the fetches of an
    epoch; where they are made anew for each pass, set `epoch` before it.
    """

    def __init__(self, batch_size=64, block_size=16, fetch_factor=256, *, strategy="block", seed=0, drop_last=False, mask=None):
        self._strategy = one_of(strategy, ("block", "sequential", "buffer"), "strategy")
        self._batch_size, self._block_size, self._fetch_factor = batch_size, block_size, fetch_factor
        self._seed, self._drop_last, self.epoch = seed, drop_last, 0
        if mask is not None:
            self.mask = mask

    @property
    def mask(self):
        return self._mask

    @mask.setter
    def mask(self, mask):
        start = mask.start or 0
        if mask.step not in (None, 1):
            raise errors.ArgumentError(f"mask.step must be 1, but got {mask.step}: give a slice of consecutive observations")
        if start < 0:
            raise errors.ArgumentError(f"mask.start must be >= 0, but got {start}")
        if mask.stop is not None and start >= mask.stop:
            raise errors.ArgumentError(f"mask.start must be < mask.stop, but got {start} and {mask.stop}")
        self._mask = mask

    @property
    def batch_size(self):
        return self._batch_size

    @property
    def shuffle(self):
        return self._strategy != "sequential"

    def n_batches(self, n_obs):
        return self._order(n_obs)[0].batches

    def validate(self, n_obs):
        self._range(n_obs)

    def _range(self, n_obs):
        start, stop = self.mask.start or 0, n_obs if self.mask.stop is None else self.mask.stop
        if stop > n_obs:
            raise errors.ArgumentError(f"mask.stop {stop} exceeds loader n_obs {n_obs}")
        if start >= stop:
            raise errors.ArgumentError(f"mask.start {start} must be < mask.stop {stop}: the mask leaves none of {n_obs} observations")
        return start, stop

    def _order(self, n_obs):
        start, stop = self._range(n_obs)
        options = {"seed": self._seed, "block_size": self._block_size, "batch_size": self._batch_size, "fetch_factor": self._fetch_factor}
        options |= {"drop_last": self._drop_last, "strategy": getattr(lib, "ANNB_SAMPLE_" + STRATEGIES[self._strategy])}
        return Order([(NO_STORE, 1, stop - start)], ffi.new("annb_sampler_options *", options)), start

    def _sample(self, n_obs):
        order, start = self._order(n_obs)
        epoch, self.epoch = self.epoch, self.epoch + 1
        mine, workers = worker()
        for first in range(mine * order.fetch_factor, order.batches, workers * order.fetch_factor):
            batches = [order.batch(epoch, i) + start for i in range(first, min(first + order.fetch_factor, order.batches))]
            ends = np.cumsum([len(b) for b in batches])
            yield {"requests": np.concatenate(batches), "splits": np.split(np.arange(ends[-1]), ends[:-1])}


def worker():
    """The number of the torch DataLoader worker this runs in, and of how many; 0 of 1 outside of one."""
    info = worker_info()
    return (info.id, info.num_workers) if info else (0, 1)
