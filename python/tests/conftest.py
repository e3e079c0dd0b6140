"""Fixtures of the package's tests; also what the doctests use."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import hdf5plugin  # noqa: E402  pack finds the filters of some test files there

os.environ["HDF5_PLUGIN_PATH"] = hdf5plugin.PLUGIN_PATH

import annblock  # noqa: E402

EXAMPLE = ROOT / "examples/example.h5ad"


@pytest.fixture(scope="session")
def example_h5ad():
    return EXAMPLE


@pytest.fixture(scope="session")
def example_store(tmp_path_factory):
    path = tmp_path_factory.mktemp("example") / "example.annblock"
    annblock.pack(EXAMPLE, path)
    return path


@pytest.fixture(scope="session")
def adata(example_h5ad):
    """The example as anndata reads it."""
    import anndata

    return anndata.read_h5ad(example_h5ad)


@pytest.fixture
def store(example_store):
    with annblock.open(example_store) as opened:
        yield opened


@pytest.fixture(autouse=True)
def doctest_names(doctest_namespace, example_store, tmp_path):
    doctest_namespace.update(annblock=annblock, np=np, example_store=example_store, example_h5ad=EXAMPLE, scratch=tmp_path)
