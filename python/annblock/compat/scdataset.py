"""scDataset over a store, and scDataset's callbacks with our Loader.

from scdataset import scDataset, BlockShuffling
dataset = scDataset(Collection("cells.annblock"), BlockShuffling(), batch_size=64)
"""

import numpy as np

from ..matrix import Matrix
from ..store import Store
from ..store import open as open_store


class Collection:
    """Rows of a matrix as scDataset takes a data collection: `len` and `collection[indices]`, a csr_array with one row per index.

    Indices may be sorted, as scDataset asks, or not.

    >>> from annblock.compat.scdataset import Collection
    >>> len(Collection(example_store)), Collection(example_store)[np.array([3, 8])].shape
    (2000, (2, 2400))
    """

    def __init__(self, store, matrix="X"):
        if not isinstance(store, (Store, Matrix)):
            store = open_store(store)
        self.matrix = store if isinstance(store, Matrix) else store.matrix(matrix)
        self.shape = self.matrix.shape

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows):
        return self.matrix[rows]


def transform(fetch_transform=None, batch_callback=None, batch_transform=None):
    """A `transform` for our Loader of scDataset's callbacks, which see csr_array.

    scDataset fetches many rows, transforms them (`fetch_transform`), takes each batch from them (`batch_callback`, with places within the
    fetch) and transforms that (`batch_transform`). Our batches are decoded one by one, so here the fetch is the batch, and the places are
    0 … n-1. `fetch_callback`, which reads rows from the collection, has nothing left to do.
    """

    def apply(batch):
        data = batch.X
        if fetch_transform is not None:
            data = fetch_transform(data)
        if batch_callback is not None:
            data = batch_callback(data, np.arange(len(batch.rows)))
        return data if batch_transform is None else batch_transform(data)

    return apply
