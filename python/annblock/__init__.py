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

__version__ = ffi.string(lib.annb_version()).decode()
LAZY = {name: module for module, names in {
    "batch": ["Batch"],
    "checking": ["Finding", "verify"],
    "convert": ["Packed", "annotate", "append", "compare", "export", "pack"],
    "loader": ["Loader"],
    "mixing": ["Entropy", "entropy"],
}.items() for name in names}  # fmt: skip
if TYPE_CHECKING:
    from .batch import Batch as Batch
    from .checking import Finding as Finding
    from .checking import verify as verify
    from .convert import Packed as Packed
    from .convert import annotate as annotate
    from .convert import append as append
    from .convert import compare as compare
    from .convert import export as export
    from .convert import pack as pack
    from .loader import Loader as Loader
    from .mixing import Entropy as Entropy
    from .mixing import entropy as entropy


def __getattr__(name):
    from importlib import import_module

    if name in LAZY:
        return getattr(import_module(f"{__name__}.{LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*(n for n in globals() if not n.startswith("_")), *LAZY, "__version__"])
