"""How mixed the labels of minibatches will be, before training."""
from dataclasses import dataclass

import numpy as np

from . import _open_loader as make
from . import errors
from ._c import check, ffi, lib, local


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


def entropy(stores, label, *, batches=1000, epoch=0, **options):
    """The entropy of the categorical obs column `label` within minibatches of `Loader(stores, **options)`: an `Entropy`.

    The loader's own order is simulated, with up to `batches` batches spread over the epoch; no matrix is read.

    >>> found = annblock.entropy(example_store, "cell_line", batch_size=64, block_size=16)
    >>> found.classes, found.mean < found.label < 2.6
    (6, True)
    """
    from .loader import Loader

    loader = Loader(stores, matrices=(), **options)
    codes = make.union_codes(loader.stores, label)[0]
    members = codes if loader.chosen is None else codes[loader.chosen.astype(np.int64)]
    found = [bits(codes[rows]) for rows in simulate(loader, epoch, batches)]
    if not found:
        raise errors.ArgumentError("there are no cells to draw batches from")
    whole, k = bits(members), len(np.unique(members[members >= 0]))
    blocks = max(loader.batch_size / loader.block_size, 1)
    loss = (k - 1) / (2 * np.log(2))
    lower, upper = max(float(whole - loss / blocks), 0.0), max(float(whole - loss / loader.batch_size), 0.0)
    return Entropy(float(np.mean(found)), float(np.std(found)), whole, lower, upper, k, len(found))


def bits(codes):
    """Entropy of the classes among `codes`; missing ones (-1) are left out."""
    counts = np.bincount(codes[codes >= 0])
    p = counts[counts > 0] / max(counts.sum(), 1)
    return float(-(p * np.log2(p)).sum() + 0.0)


def simulate(loader, epoch, batches):
    """The rows of up to `batches` batches spread evenly over the epoch."""
    options = make.Options(loader, loader.stores, {"world": 1}, 1)
    sampler, error = ffi.new("annb_sampler **"), local.error
    sources = [{"store_id": bytes.fromhex(s.store_id), "generation": s.generation, "n_rows": s.n_obs} for s in loader.stores]
    check(lib.annb_sampler_open(ffi.new("annb_sampler_source[]", sources), len(sources), ffi.addressof(options.c, "sampler"), sampler, error), error)
    held = ffi.gc(sampler[0], lib.annb_sampler_close)
    info, picker = ffi.new("annb_sampler_info *"), ffi.new("annb_picker **")
    lib.annb_sampler_get_info(held, info)
    check(lib.annb_picker_open(held, picker, error), error)
    try:
        rows, n = np.empty(loader.batch_size, np.uint64), ffi.new("uint32_t *")
        at = ffi.from_buffer("uint64_t[]", rows)
        for batch in np.unique(np.linspace(0, max(int(info.batches) - 1, 0), min(batches, int(info.batches))).astype(np.int64)):
            check(lib.annb_picker_batch(picker[0], epoch, int(batch), at, n, error), error)
            yield rows[: n[0]].astype(np.int64)
    finally:
        lib.annb_picker_close(picker[0])
