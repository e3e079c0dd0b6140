"""Rows in the library's memory: they stay right whatever comes after, and memory is bounded."""

import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import annblock
import numpy as np
import pytest
import scipy.sparse as sp

ROWS = np.random.default_rng(5).integers(0, 2000, 64)


@pytest.fixture
def store(example_store):
    return annblock.open(example_store, num_threads=3)


def same(got, expected):
    expected = sp.csr_array(expected)
    return (
        got.shape == expected.shape
        and np.array_equal(got.indptr, expected.indptr)
        and np.array_equal(got.indices, expected.indices)
        and np.array_equal(got.data, expected.data)
    )


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def n_threads():
    return len(os.listdir("/proc/self/task"))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads(example_store, adata, threads):
    store = annblock.open(example_store, num_threads=threads)
    assert store.num_threads == threads and pickle.loads(pickle.dumps(store)).num_threads == threads
    for rows in (ROWS, ROWS.tolist(), ROWS.astype(np.uint64), ROWS.astype(np.int32), ROWS[::2], ROWS - 2000, slice(3, 900), ROWS[:0], [7]):
        expected = adata.X[np.asarray(rows) if isinstance(rows, list) else rows.astype(np.int64) if not isinstance(rows, slice) else rows]
        got = store[rows]
        assert same(got, expected) and got.has_sorted_indices
        assert np.array_equal(store.matrix().dense(rows), expected.toarray())


def test_default_threads(example_store):
    assert annblock.open(example_store).num_threads == min(len(os.sched_getaffinity(0)), 8)
    for bad in (0, -1, 1.5, True):
        with pytest.raises(annblock.ArgumentError, match="num_threads"):
            annblock.open(example_store, num_threads=bad)


def test_numbers_are_not_changed(store):
    for rows in (ROWS.copy(), ROWS.astype(np.uint64)):
        before = rows.copy()
        store[rows], store.matrix().dense(rows)
        annblock.Loader(store, rows=np.unique(rows)[::-1])
        assert np.array_equal(rows, before)
    rows = np.unique(ROWS)[::-1].astype(np.uint64)
    annblock.Loader(store, rows=rows)
    assert rows[0] > rows[-1]


@pytest.mark.parametrize("bad", [2000, -2001, 1 << 40])
def test_out_of_range(store, bad):
    rows = ROWS.copy()
    rows[40] = bad
    with pytest.raises(annblock.RangeError, match=str(bad)):
        store[rows]


def test_arrays_stay(store, adata):
    """Through later calls, the store's end, and the end of the matrix that they came in."""
    expected = adata.X[ROWS]
    held, dense = store[ROWS], store.matrix().dense(ROWS)
    part, row = store[ROWS].data[5:50], store.matrix().dense(ROWS)[3]
    for i in range(200):
        store[ROWS + i % 3 - 3]
        store.matrix().dense(ROWS[: 1 + i % 64])
    matrix = store.matrix()
    store.close()
    assert same(matrix[ROWS], expected)
    del store, matrix
    gc.collect()
    assert same(held, expected) and np.array_equal(dense, expected.toarray())
    assert np.array_equal(part, expected.data[5:50]) and np.array_equal(row, expected[[3]].toarray()[0])
    held.data[:] = 7  # they are the caller's
    held.sort_indices()
    held.eliminate_zeros()
    assert (held.data == 7).all() and held.data.flags.writeable


def test_each_call_its_own_memory(store, adata):
    kept = [store[np.roll(ROWS, i)] for i in range(40)]
    for i, got in enumerate(kept):
        assert same(got, adata.X[np.roll(ROWS, i)])
    assert len({got.data.ctypes.data for got in kept}) == 40


def test_memory_is_used_again(store):
    first = store[ROWS].data.ctypes.data
    assert all(store[ROWS].data.ctypes.data == first for _ in range(20))


def test_memory_is_bounded(example_store):
    def work(n):
        for i in range(n):
            store = annblock.open(example_store, num_threads=2)
            held = [store[ROWS], store.matrix().dense(ROWS), store[:]]
            if i % 2:
                store.close()
            del held[i % 3]
        gc.collect()

    work(20)
    before, threads = resident(), n_threads()
    work(150)
    assert resident() - before < 8 << 20 and n_threads() <= threads


def test_threads_end_with_the_store(example_store):
    before, store = n_threads(), annblock.open(example_store, num_threads=4)
    store[ROWS]
    assert n_threads() == before + 3
    store.close()
    assert n_threads() == before


def test_closed_while_fetching(example_store, adata):
    """A call that runs goes on; the next one says that the store is closed."""
    expected, wrong = adata.X[ROWS], []

    def work(store, started):
        try:
            for _ in range(10_000):
                if not same(store[ROWS], expected):
                    wrong.append("values")
                started.release()
        except annblock.ArgumentError as error:
            if "closed" not in str(error):
                wrong.append(error)

    for _ in range(10):
        store, started = annblock.open(example_store, num_threads=3), threading.Semaphore(0)
        threads = [threading.Thread(target=work, args=(store, started)) for _ in range(3)]
        for t in threads:
            t.start()
        for _ in range(6):
            started.acquire()
        store.close()
        for t in threads:
            t.join(60)
            assert not t.is_alive()
    assert not wrong


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_while_threads_fetch(example_store, method):
    """A child finds no helpers, and what other threads had at the moment of fork is theirs."""
    store, stop = annblock.open(example_store, num_threads=3), threading.Event()
    rows = ROWS - 2000
    expected = [float(store[rows + i].sum()) for i in range(3)]

    def work():
        while not stop.is_set():
            store[rows]

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        for _ in range(3):
            with multiprocessing.get_context(method).Pool(2) as pool:
                got = pool.starmap_async(child_sums_of, [(store, rows, 3)] * 2).get(120)
            assert got == [expected] * 2
    finally:
        stop.set()
        for t in threads:
            t.join()


def child_sums_of(store, rows, n):
    return [float(store[rows + i].sum()) for i in range(n)]


def test_end_of_the_interpreter(example_store):
    """Helpers that sleep do not keep a process."""
    code = f"import annblock, numpy as np; s = annblock.open({str(example_store)!r}, num_threads=4); kept = s[np.arange(64)]; print(kept.nnz)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and int(done.stdout) > 0 and not done.stderr


def test_import_is_small():
    code = "import sys, annblock; print([m for m in ('torch', 'scipy', 'pandas', 'anndata', 'dask', 'h5py') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
