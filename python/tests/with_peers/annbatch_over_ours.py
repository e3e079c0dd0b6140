"""A pytest plugin for annbatch's own sampler tests (-p annbatch_over_ours): their samplers' names stand for ours.

Their tests ask for requests as slices, which the interface allows beside the index arrays that ours gives: each fetch is rewritten as
slices of at most a block with the same rows in the same batches. The rest is renamed arguments.
"""

import annbatch.samplers
import annblock.compat.annbatch
import numpy as np
from annbatch.samplers import _chunk_sampler
from annblock.compat.annbatch import Sampler


def sorted_slices(rows, block_size):
    """The sorted rows as slices, cut at multiples of block_size from the first of all."""
    rows = np.sort(rows)
    cuts = np.flatnonzero((np.diff(rows) != 1) | (rows[1:] // block_size != rows[:-1] // block_size)) + 1
    return [slice(int(run[0]), int(run[-1]) + 1) for run in np.split(rows, cuts)]


class Ours(Sampler):
    strategy = "block"

    def __init__(self, *, chunk_size=512, preload_nchunks=32, batch_size=1, mask=None, drop_last=False, rng=None, **theirs):
        fetch_factor = max(chunk_size * preload_nchunks // batch_size, 1)
        seed = 0 if rng is None else int(rng.integers(2**63))
        super().__init__(batch_size, chunk_size, fetch_factor, strategy=self.strategy, seed=seed, drop_last=drop_last, mask=mask)
        self.chunk_size, self.rng, self.theirs = chunk_size, rng, theirs

    def _range(self, n_obs):
        if self.theirs:
            raise NotImplementedError(f"our epochs are all observations once: there is no {', '.join(self.theirs)}")
        return super()._range(n_obs)

    def _sample(self, n_obs):
        start = self.mask.start or 0
        for request in super()._sample(n_obs):
            rows = request["requests"]
            places = np.empty(len(rows), np.int64)
            places[np.argsort(rows)] = np.arange(len(rows))
            slices = [slice(s.start + start, s.stop + start) for s in sorted_slices(rows - start, self.chunk_size)]
            yield {"requests": slices, "splits": [places[split] for split in request["splits"]]}


class RandomSampler(Ours):
    pass


class SequentialSampler(Ours):
    strategy = "sequential"


def worker():
    info = _chunk_sampler.get_torch_worker_info()
    return (info.id, info.num_workers) if info else (0, 1)


annblock.compat.annbatch.worker = worker
annbatch.samplers.RandomSampler, annbatch.samplers.SequentialSampler = RandomSampler, SequentialSampler
