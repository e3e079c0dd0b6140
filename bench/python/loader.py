"""Rates of the Python loader on a packed store, beside its peers where they are installed.

usage: loader.py STORE [--h5ad FILE] [--seconds 5] [--threads 1,2]
One line per point: cells per second, median of the laps. --h5ad: the same cells for scDataset (uncompressed, in the page cache).
"""
import argparse
import statistics
import subprocess
import sys
import time

import numpy as np

import annblock

POINT = {"batch_size": 64, "block_size": 16, "fetch_factor": 256}


def rate(batches, seconds):
    """Cells per second over laps of half a second; the first lap warms up."""
    laps, n, began, end = [], 0, time.perf_counter(), time.perf_counter() + seconds
    for cells in batches:
        n += cells
        now = time.perf_counter()
        if now - began > 0.5:
            laps.append(n / (now - began))
            n, began = 0, now
        if now > end:
            break
    return statistics.median(laps[1:] or laps or [0.0])


def epochs(loader):
    while True:
        for batch in loader:
            batch.X  # made by now
            yield len(batch.rows)


def row(name, value, unit="cells/s"):
    print(f"| {name} | {value:,.0f} {unit} |", flush=True)


def loaders(path, seconds, threads):
    for t in threads:
        for label, options in {
            "csr, original gene ids": {},
            "csr, stored gene ids": {"gene_order": "stored"},
            "csr, sorted": {"sort_indices": True},
            "dense (numpy)": {"output": "dense"},
        }.items():
            row(f"annblock.Loader, {label}, {t} threads", rate(epochs(annblock.Loader(path, num_threads=t, **POINT, **options)), seconds))
        try:
            import torch  # noqa: F401
        except ImportError:
            continue
        row(f"annblock.Loader, torch dense, {t} threads", rate(epochs(annblock.Loader(path, num_threads=t, output="torch", **POINT)), seconds))


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
        from scdataset import BlockShuffling, scDataset

        from annblock.compat.scdataset import Collection
    except ImportError as error:
        print(f"scDataset is left out: {error}", file=sys.stderr)
        return
    shape = {"batch_size": 64, "fetch_factor": 256}
    collections = {"annblock.compat.scdataset.Collection": Collection(path)}
    if h5ad:
        collections["uncompressed h5ad"] = anndata.read_h5ad(h5ad, backed="r").X
    for name, collection in collections.items():
        data = scDataset(collection, BlockShuffling(block_size=16), **shape)
        row(f"scDataset over {name}", rate((b.shape[0] for _ in range(1000) for b in data), max(seconds, 10)))


def beside_training(path, seconds):
    """Does the loader keep up with a CPU training step? Time waited for batches, as a share of all."""
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)
    loader = annblock.Loader(path, num_threads=1, output="torch", **POINT)
    model = torch.nn.Linear(len(loader.genes), 64)
    waited, steps, began = 0.0, 0, time.perf_counter()
    it = iter(loader)
    next(it)
    while steps < 100 and time.perf_counter() - began < 4 * seconds:
        t = time.perf_counter()
        batch = next(it)
        waited += time.perf_counter() - t
        model(batch.X.log1p_()).square().mean().backward()
        steps += 1
    row(f"{steps} batches beside a CPU training step: time waited for the loader", 100 * waited / (time.perf_counter() - began), "%")


def import_time():
    code = "import numpy, time; t = time.perf_counter(); import annblock; print(1000 * (time.perf_counter() - t))"
    row("import annblock, beyond numpy", min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)), "ms")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("store")
    p.add_argument("--h5ad")
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--threads", default="1,2", type=lambda t: [int(n) for n in t.split(",")])
    a = p.parse_args()
    print("| what | median |\n|---|---|")
    loaders(a.store, a.seconds, a.threads)
    random_rows(a.store, a.seconds)
    beside_training(a.store, a.seconds)
    scdataset(a.store, a.h5ad, a.seconds)
    import_time()


if __name__ == "__main__":
    main()
