"""annblock: read and make stores of AnnData matrices, fast enough to train from.

    store = annblock.open("cells.annblock")     # obs, var, store[rows], store.matrix("layers/counts")[rows, genes]
    loader = annblock.Loader(store)             # shuffled minibatches for training
    annblock.pack("cells.h5ad", "cells.annblock")

Importing this module imports numpy and nothing else of size; pandas, scipy, anndata and torch are imported when they are needed.
"""

from typing import TYPE_CHECKING

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

__all__ = [
    "ArgumentError", "Batch", "CanceledError", "CapacityError", "ConflictError", "CorruptError", "Entropy", "Error", "ExistsError", "Finding",
    "InputError", "InputOutputError", "Loader", "LossyError", "Matrix", "NotAStoreError", "NotFoundError", "OutOfMemoryError", "Packed",
    "RangeError", "Store", "UnsupportedError", "VersionError", "annotate", "append", "compare", "entropy", "export", "open", "pack", "verify",
]  # fmt: skip
__version__ = ffi.string(lib.annb_version()).decode()
LAZY = {name: module for module, names in {
    "batch": ["Batch"],
    "checking": ["Finding", "verify"],
    "convert": ["Packed", "annotate", "append", "compare", "export", "pack"],
    "loader": ["Loader"],
    "mixing": ["Entropy", "entropy"],
}.items() for name in names}  # fmt: skip
if TYPE_CHECKING:
    from .batch import Batch
    from .checking import Finding, verify
    from .convert import Packed, annotate, append, compare, export, pack
    from .loader import Loader
    from .mixing import Entropy, entropy


def __getattr__(name):
    from importlib import import_module

    if name in LAZY:
        return getattr(import_module(f"{__name__}.{LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return [*__all__, "__version__"]
