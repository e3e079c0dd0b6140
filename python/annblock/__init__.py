"""annblock: read and make stores of AnnData matrices, fast enough to train from.

    store = annblock.open("cells.annblock")     # obs, var, store[rows], store.matrix("layers/counts")[rows, genes]
    loader = annblock.Loader(store)             # shuffled minibatches for training
    annblock.pack("cells.h5ad", "cells.annblock")

Importing this module imports numpy and nothing else of size; pandas, scipy, anndata and torch are imported when they are needed.
"""
from ._c import ffi, lib
from .errors import (
    ArgumentError,
    CanceledError,
    CapacityError,
    ConflictError,
    CorruptError,
    Error,
    ExistsError,
    InputError,
    InputOutputError,
    LossyError,
    NotAStoreError,
    NotFoundError,
    OutOfMemoryError,
    RangeError,
    UnsupportedError,
    VersionError,
)
from .matrix import Matrix
from .store import Store, open

__version__ = ffi.string(lib.annb_version()).decode()
LAZY = {"pack": "convert", "append": "convert", "export": "convert", "compare": "convert", "verify": "checking", "Finding": "checking", "Loader": "loader", "entropy": "mixing", "Entropy": "mixing", "Batch": "batch"}


def __getattr__(name):
    from importlib import import_module

    if name in LAZY:
        return getattr(import_module(f"{__name__}.{LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*(n for n in globals() if not n.startswith("_")), *LAZY, "__version__"])
