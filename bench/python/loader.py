"""Rates of the Python loader on a packed store, beside its peers where they are installed.

usage: loader.py STORE [--h5ad FILE] [--seconds 5] [--threads 1,2] [--rounds 3]
A line per point: cells per second, and beside it what C alone gives in the same process, in turns. --h5ad: the same cells for
scDataset (uncompressed, in the page cache).
"""

import argparse
import functools
import statistics
import subprocess
import sys
import time

import annblock
import numpy as np
from annblock._c import check, ffi, lib, local

POINT = {"batch_size": 64, "block_size": 16, "fetch_factor": 256}
WARM = 50  # batches


def rate(batches, seconds):
    """Cells per second; the first tenth warms up."""
    n, start, begin = 0, None, time.perf_counter()
    for cells in batches:
        n += cells
        now = time.perf_counter()
        if start is None and now - begin > seconds / 10:
            n, start = 0, now
        if start is not None and now - start > seconds:
            return n / (now - start)
    return 0.0


def python_batches(loader):
    while True:
        for batch in loader:
            batch.X  # made by now
            yield len(batch.rows)


def c_batches(loader):
    """The same batches without arrays: one call of C for each."""
    ready, error, epoch = ffi.new("bool *"), local.error, 0
    handle = loader._handle((0, 1, 0, 1), None)
    batch = ffi.new("annb_batch *")
    while True:
        check(lib.annb_loader_set_epoch(handle, epoch, error), error)
        while True:
            ready[0] = False
            while not ready[0]:
                check(lib.annbpy_loader_next(handle, 200, batch, ready, error), error)
            n = batch.n_rows
            lib.annb_batch_release(batch)
            if not n:
                break
            yield n
        epoch += 1


def row(name, value, unit="cells/s", more=""):
    print(f"| {name} | {value:,.0f} {unit} | {more} |", flush=True)


POINTS = {
    "csr": {},
    "csr, stored gene numbers": {"gene_order": "stored"},
    "csr, sorted": {"sort_indices": True},
    "dense (numpy)": {"output": "dense"},
    "torch (dense float32)": {"output": "torch"},
}


def loaders(path, seconds, threads, rounds):
    """Python and C in turns, median of the rounds' ratios."""
    for t in threads:
        for label, options in POINTS.items():
            if "torch" in label and not torch_is_there():
                continue
            make = functools.partial(annblock.Loader, path, num_threads=t, **POINT, **options)
            pairs = [(rate(python_batches(make()), seconds), rate(c_batches(make()), seconds)) for _ in range(rounds)]
            python, c = (statistics.median(p) for p in zip(*pairs))
            share = statistics.median(a / b for a, b in pairs)
            row(f"Loader, {label}, {t} thread(s)", python, more=f"{share:.0%} of {c:,.0f} in C")


def torch_is_there():
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


def random_rows(path, seconds):
    """64 random rows at a time, sorted, as scipy users expect."""
    store, rng = annblock.open(path), np.random.default_rng(0)

    def batches():
        while True:
            store[rng.integers(0, store.n_obs, 64)]
            yield 64

    row("store[64 random rows], sorted csr_array", rate(batches(), seconds))


def scdataset(path, h5ad, seconds):
    """scDataset over the h5ad file, and over our collection."""
    try:
        import anndata
        from annblock.compat.scdataset import Collection
        from scdataset import BlockShuffling, scDataset
    except ImportError as error:
        print(f"scDataset is left out: {error}", file=sys.stderr)
        return
    shape = {"batch_size": 64, "fetch_factor": 256}
    collections = {"annblock.compat.scdataset.Collection": Collection(path)}
    if h5ad:
        collections["uncompressed h5ad"] = anndata.read_h5ad(h5ad, backed="r").X
    for name, collection in collections.items():
        data = scDataset(collection, BlockShuffling(block_size=16), **shape)
        row(f"scDataset over {name}", rate((b.shape[0] for _ in range(1000) for b in data), max(seconds, 5)))


def beside_training(path, seconds):
    """Does the loader keep up with a CPU training step of one torch thread that takes two and four times as long as decoding its batch?

    What counts is batches that were not ready when they were asked for; the time in `next` has the making of tensors in it too, and what
    other processes take of the two cores. The first fetch warms up.
    """
    if not torch_is_there():
        return
    import torch

    torch.set_num_threads(1)
    decode = 64 / max(rate(c_batches(annblock.Loader(path, num_threads=1, output="torch", **POINT)), seconds / 3), 1)
    for times in (2, 4):
        waits, not_ready, steps = waits_beside(torch, path, times * decode, seconds)
        p50, p99 = np.percentile(waits, (50, 99)) * 1000
        share = 100 * waits.sum() / (waits.sum() + steps.sum())
        row(
            f"Loader, torch, 1 thread, beside a step {np.median(steps) / decode:.1f} × as long as decoding: batches waited for",
            100 * not_ready.mean(), "%", f"of {len(waits)}; next() takes p50 {p50:.2f}, p99 {p99:.2f} ms, {share:.1f} % of the time",
        )  # fmt: skip


def waits_beside(torch, path, step_seconds, seconds):
    """(seconds in next(), whether the batch was not ready, seconds of the step) of each batch."""
    loader = annblock.Loader(path, num_threads=1, output="torch", **POINT)
    iteration, ready = iter(loader), ffi.new("bool *")
    layer = torch.nn.Linear(len(loader.genes), 16)
    cells = cells_of_step(torch, layer, next(iteration).X, step_seconds)
    found, began = [], time.perf_counter()
    while time.perf_counter() - began < seconds or len(found) < 2 * WARM:
        check(lib.annb_loader_poll(iteration.handle, 0, ready, local.error), local.error)
        before = time.perf_counter()
        batch = next(iteration, None)
        if batch is None:
            iteration = iter(loader)
            continue
        after = time.perf_counter()
        layer(batch.X[:cells]).square().mean().backward()
        found.append((after - before, not ready[0], time.perf_counter() - after))
    return (np.array(column) for column in zip(*found[WARM:]))


def cells_of_step(torch, layer, x, step_seconds):
    """How many of the cells a step must take to last so long, at most all."""
    took = []
    for _ in range(5):
        began = time.perf_counter()
        layer(x).square().mean().backward()
        took.append(time.perf_counter() - began)
    return max(1, min(len(x), round(len(x) * step_seconds / min(took))))


def import_time():
    code = "import numpy, time; t = time.perf_counter(); import annblock; print(1000 * (time.perf_counter() - t))"
    row("import annblock, beyond numpy", min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)), "ms")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("store")
    p.add_argument("--h5ad")
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--threads", default="1,2", type=lambda t: [int(n) for n in t.split(",")])
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()
    print("| what | median | |\n|---|---|---|")
    loaders(a.store, a.seconds, a.threads, a.rounds)
    random_rows(a.store, a.seconds)
    beside_training(a.store, a.seconds)
    scdataset(a.store, a.h5ad, a.seconds)
    import_time()


if __name__ == "__main__":
    main()
