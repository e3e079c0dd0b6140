"""One rate, in a process of its own and in the environment of the tool: peer_rates.py WHAT FILE SECONDS THREADS. Prints cells per second.

Minibatches of 64, runs of 16 cells, 256 minibatches shuffled together, CSR. The first fetch warms up; what counts are whole fetches, since
a tool may give all minibatches of one at once.
"""

import sys
import time
import warnings

import numpy as np

warnings.simplefilter("ignore")
BLOCK, BATCH, FETCH = 16, 64, 256


def rate(epoch, seconds, fetch=FETCH):
    """`epoch()` iterates over the numbers of cells of minibatches."""
    cells = batches = 0
    begin = None
    while True:
        for n in epoch():
            cells, batches = cells + n, batches + 1
            if batches % fetch:
                continue
            now = time.perf_counter()
            if begin is None:
                cells, begin = 0, now
            elif now - begin > seconds:
                return cells / (now - begin)


def ours(path, seconds, threads):
    import annblock

    loader = annblock.Loader(path, BATCH, BLOCK, FETCH, num_threads=threads)
    return rate(lambda: (b.X.shape[0] for b in loader), seconds)


def annbatch(path, seconds, threads, chunk=BLOCK):
    from annbatch import DatasetCollection, Loader
    from annbatch.samplers import RandomSampler

    try:
        import zarr
        import zarrs  # noqa: F401  the pipeline that annbatch advises

        zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "threading.max_workers": threads})
    except ImportError:
        print("annbatch without zarrs", file=sys.stderr)
    sampler = RandomSampler(chunk_size=chunk, preload_nchunks=BATCH * FETCH // chunk, batch_size=BATCH, rng=np.random.default_rng(0))
    loader = Loader(batch_sampler=sampler, preload_to_gpu=False).use_collection(DatasetCollection(path, mode="r"))
    return rate(lambda: (b["X"].shape[0] for b in loader), seconds)


def annbatch_default(path, seconds, threads):
    """Its default runs: 512 rows, as many cells shuffled together."""
    return annbatch(path, seconds, threads, 512)


class Rows:
    """A backed matrix with the `len` that scDataset asks for."""

    def __init__(self, matrix):
        self.matrix = matrix

    def __len__(self):
        return self.matrix.shape[0]

    def __getitem__(self, rows):
        return self.matrix[rows]


def scdataset(path, seconds, _):
    import anndata
    from scdataset import BlockShuffling, scDataset

    rows = Rows(anndata.read_h5ad(path, backed="r").X)
    data = scDataset(rows, BlockShuffling(block_size=BLOCK), batch_size=BATCH, fetch_factor=FETCH)
    return rate(lambda: (b.shape[0] for b in data), seconds)


def scdataset_over_ours(path, seconds, _):
    from annblock.compat.scdataset import Collection
    from scdataset import BlockShuffling, scDataset

    data = scDataset(Collection(path), BlockShuffling(block_size=BLOCK), batch_size=BATCH, fetch_factor=FETCH)
    return rate(lambda: (b.shape[0] for b in data), seconds)


def random_rows(read, n, seconds):
    rng = np.random.default_rng(0)

    def calls():
        for _ in range(1000):
            matrix = read(rng.integers(0, n, BATCH))
            assert matrix.has_sorted_indices
            yield matrix.shape[0]

    return rate(calls, seconds, fetch=20)


def our_rows(path, seconds, threads):
    import annblock

    store = annblock.open(path, num_threads=threads)
    return random_rows(lambda rows: store[rows], store.n_obs, seconds)


def cellstream_rows(path, seconds, threads):
    from cellstream import CellStore

    store = CellStore(path)
    return random_rows(lambda rows: store.gather_rows(rows, n_threads=threads), store.n_obs, seconds)


if __name__ == "__main__":
    what, path, seconds, threads = sys.argv[1:]
    print(f"{globals()[what](path, float(seconds), int(threads)):.1f}", flush=True)
