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

NO_STORE = "0" * 32


class Sampler(annbatch.abc.Sampler):
    """Block shuffling in fetches, as `annblock.Loader` does it: each pass is the next epoch, a pure function of the seed.

    `mask` (a slice of the observations) is heeded. `rng` is not used: the order comes from `seed`. Strategies: "block", "sequential",
    "buffer".
    Each load request is one fetch: the rows of `fetch_factor` batches in their order.
    """

    def __init__(self, batch_size=64, block_size=16, fetch_factor=256, *, strategy="block", seed=0, drop_last=False, mask=None):
        self._strategy = one_of(strategy, ("block", "sequential", "buffer"), "strategy")
        self._batch_size, self._block_size, self._fetch_factor = batch_size, block_size, fetch_factor
        self._seed, self._drop_last, self.epoch = seed, drop_last, 0
        if mask is not None:
            self.mask = mask

    @property
    def batch_size(self):
        return self._batch_size

    @property
    def shuffle(self):
        return self._strategy != "sequential"

    def n_batches(self, n_obs):
        return self._order(n_obs)[0].batches

    def validate(self, n_obs):
        start, stop = self._range(n_obs)
        if start >= stop:
            raise ValueError(f"the mask {self.mask} leaves none of {n_obs} observations")

    def _range(self, n_obs):
        start, stop, step = self.mask.indices(n_obs)
        if step != 1:
            raise errors.ArgumentError("the mask must be a slice with step 1")
        if (self.mask.stop or 0) > n_obs:
            raise ValueError(f"the mask {self.mask} reaches past the {n_obs} observations")
        return start, stop

    def _order(self, n_obs):
        start, stop = self._range(n_obs)
        options = {"seed": self._seed, "block_size": self._block_size, "batch_size": self._batch_size, "fetch_factor": self._fetch_factor}
        options |= {"drop_last": self._drop_last, "strategy": getattr(lib, "ANNB_SAMPLE_" + STRATEGIES[self._strategy])}
        return Order([(NO_STORE, 1, max(stop - start, 0))], ffi.new("annb_sampler_options *", options)), start

    def _sample(self, n_obs):
        order, start = self._order(n_obs)
        epoch, self.epoch = self.epoch, self.epoch + 1
        for first in range(0, order.batches, order.fetch_factor):
            batches = [order.batch(epoch, i) + start for i in range(first, min(first + order.fetch_factor, order.batches))]
            ends = np.cumsum([len(b) for b in batches])
            yield {"requests": np.concatenate(batches), "splits": np.split(np.arange(ends[-1]), ends[:-1])}
