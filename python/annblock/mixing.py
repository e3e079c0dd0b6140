"""How mixed the labels of minibatches will be, before training."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _open_loader as make
from . import errors
from ._c import ffi
from ._sampler import Order


@dataclass(frozen=True)
class Entropy:
    """Label entropy in bits. `mean` and `sd` over the simulated `batches`; `label`: of all cells together, what a perfect shuffle
    approaches; `lower` and `upper`: asymptotic bounds of scDataset's paper (arXiv 2506.01883), which leave out terms that count when
    batches have few blocks: trust `mean`."""

    mean: float
    sd: float
    label: float
    lower: float
    upper: float
    classes: int
    batches: int


def entropy(stores: Any, label: str, *, batches: int = 20_000, epoch: int = 0, **options: Any) -> Entropy:
    """The entropy of the categorical obs column `label` within minibatches of `Loader(stores, **options)`: an `Entropy`.

    The loader's own order is simulated, with up to `batches` batches spread over the epoch; no matrix is read. A last batch that is
    shorter does not count, nor do batches without labels, as in `annblock entropy`, which gives the same numbers.

    >>> found = annblock.entropy(example_store, "cell_line", batch_size=64, block_size=16)
    >>> found.classes, found.mean < found.label < 2.6
    (6, True)
    """
    from .loader import Loader

    loader = Loader(stores, matrices=(), **options)
    codes = make.codes_of(loader.store, label)
    members = codes if loader.chosen is None else codes[loader.chosen.astype(np.int64)]
    found = [bits(codes[rows]) for rows in simulate(loader, epoch, batches)]
    if not found:
        raise errors.ArgumentError("there are no cells to draw batches from")
    found = [h for h in found if h == h]
    whole, k = bits(members), len(np.unique(members[members >= 0]))
    blocks = max(loader.batch_size / loader.block_size, 1)
    loss = (k - 1) / (2 * np.log(2))
    lower, upper = max(float(whole - loss / blocks), 0.0), max(float(whole - loss / loader.batch_size), 0.0)
    mean, sd = (float(np.mean(found)), float(np.std(found))) if found else (np.nan, np.nan)
    return Entropy(mean, sd, whole, lower, upper, k, len(found))


def bits(codes):
    """Entropy of the classes among `codes`; missing ones (-1) are left out, and NaN when there are no others."""
    counts = np.bincount(codes[codes >= 0])
    if not len(counts):
        return float("nan")
    p = counts[counts > 0] / counts.sum()
    return float(-(p * np.log2(p)).sum() + 0.0)


def simulate(loader, epoch, batches):
    """The rows of up to `batches` batches spread evenly over the epoch."""
    options = make.Options(loader, {"world": 1}, 1)
    sources = [(s.store_id, s.generation, s.n_obs) for s in loader.store.stores]
    order = Order(sources, ffi.addressof(options.c, "sampler"))
    n = max(min(batches, order.batches), 0)
    for number in range(n):
        rows = order.batch(epoch, number * (order.batches // n))
        if len(rows) == order.batch_size or order.batches == 1 or loader.strategy == "own":
            yield rows
