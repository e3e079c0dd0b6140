"""scDataset's own tests with every matrix in memory replaced by the same in a store: scdataset_over_store.py [pytest's arguments]

A program of its own, so that processes which the tests spawn run it too and see the same replacement; with SCDATASET_OVER=numpy nothing is
replaced. The matrices are dense arrays, which our collection gives back as numpy arrays of the same type: the tests cannot tell, but for
`is`. Each test draws its data with a seed of its own, as some hold by chance only (a mean that must be above zero). Their tests with
processes give each a minute, too short where much else runs: here they wait ten times as long, which changes no result.
"""

import atexit
import itertools
import multiprocessing.process
import multiprocessing.queues
import os
import shutil
import sys
import tempfile
import zlib

import annblock
import h5py
import numpy as np
import scdataset
from annblock.compat.scdataset import Collection

numbers = itertools.count()
folder = None


def write_h5ad(path, values):
    """The least that is an AnnData file; importing anndata would eat up the seconds that their tests give to each process."""

    def typed(item, kind, version="0.2.0"):
        item.attrs["encoding-type"], item.attrs["encoding-version"] = kind, version
        return item

    with h5py.File(path, "w") as f:
        typed(f, "anndata", "0.1.0")
        typed(f.create_dataset("X", data=values), "array")
        for axis, n in zip(("obs", "var"), values.shape):
            frame = typed(f.create_group(axis), "dataframe")
            frame.attrs["_index"], frame.attrs["column-order"] = "_index", np.empty(0, h5py.string_dtype())
            typed(frame.create_dataset("_index", data=[str(i) for i in range(n)], dtype=h5py.string_dtype()), "string-array")


def packed(values):
    """A matrix in memory as a collection over a store; anything else as it is."""
    global folder
    if not isinstance(values, np.ndarray) or values.ndim != 2 or values.dtype.kind not in "fiu" or not values.size:
        return values
    if folder is None:
        folder = tempfile.mkdtemp(prefix="annblock-test-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    name = f"{folder}/{next(numbers)}"
    write_h5ad(f"{name}.h5ad", values)
    annblock.pack(f"{name}.h5ad", f"{name}.annblock", threads=1, progress=False)
    collection = Collection(f"{name}.annblock")
    assert collection.matrix.dtype == values.dtype and collection.shape == values.shape
    return collection


def over_store(collection):
    if isinstance(collection, scdataset.MultiIndexable):
        members = [packed(member) for member in collection.values()]
        return scdataset.MultiIndexable(*members, names=collection.names, unstructured=collection.unstructured)
    return packed(collection)


original = scdataset.scDataset.__init__


def init(self, data_collection, *args, **options):
    original(self, over_store(data_collection), *args, **options)


if os.environ.get("SCDATASET_OVER") != "numpy":
    scdataset.scDataset.__init__ = init


class Seeds:
    def pytest_runtest_setup(self, item):
        np.random.seed(zlib.crc32(item.nodeid.encode()))


def patient(function):
    def wait(*args, timeout=None, **options):
        return function(*args, timeout=None if timeout is None else 10 * timeout, **options)

    return wait


if __name__ == "__main__":
    import pytest

    multiprocessing.queues.Queue.get = patient(multiprocessing.queues.Queue.get)
    multiprocessing.process.BaseProcess.join = patient(multiprocessing.process.BaseProcess.join)
    status = pytest.main(sys.argv[1:], plugins=[Seeds()])
    print(f"{next(numbers)} stores read")
    sys.exit(status)
