"""Files with every HDF5 filter that can be had: read with the plugins of the hdf5plugin wheel, which the command finds by itself."""
import os
import signal
import sys
from pathlib import Path

import anndata
import h5py
import hdf5plugin
import numpy as np
import pytest
from scipy import sparse

from support import EXAMPLE, ok, refused, run

FILTERS = {
    "gzip": {"compression": "gzip"},
    "gzip-shuffle-fletcher": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "lzf": {"compression": "lzf"},
    "lzf-shuffle-fletcher": {"compression": "lzf", "shuffle": True, "fletcher32": True},
    "shuffle": {"shuffle": True},
    "fletcher": {"fletcher32": True},
    "szip": {"compression": "szip"},
    "szip-fletcher": {"compression": "szip", "fletcher32": True},
    "zstd": hdf5plugin.Zstd(),
    "zstd-shuffle": {**hdf5plugin.Zstd(), "shuffle": True},
    "lz4": hdf5plugin.LZ4(),
    "bitshuffle": hdf5plugin.Bitshuffle(),
    "blosc": hdf5plugin.Blosc(),
    "blosc2": hdf5plugin.Blosc2(),
    "bzip2": hdf5plugin.BZip2(),
}
WHEEL = {"zstd": 32015, "lz4": 32004, "bitshuffle": 32008, "blosc": 32001, "blosc2": 32026, "bzip2": 307}


def without_path(python):
    """The environment of a user: no HDF5_PLUGIN_PATH, and `python` the folder with the first python3."""
    env = {k: v for k, v in os.environ.items() if k != "HDF5_PLUGIN_PATH"}
    return {**env, "PATH": f"{python}{os.pathsep}{env['PATH']}"}


@pytest.fixture
def wheel():
    return without_path(Path(sys.executable).parent)


@pytest.fixture
def no_wheel(tmp_path):
    """A python3 that has no packages."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").write_text("#!/bin/sh\nexit 1\n")
    (folder / "python3").chmod(0o755)
    return without_path(folder)


def rewrite(group, name, **how):
    data = group[name]
    values, attrs = data[()], dict(data.attrs)
    del group[name]
    chunks = tuple(min(d, 100) for d in values.shape)
    new = group.create_dataset(name, data=values, chunks=chunks, **how)
    new.attrs.update(attrs)


def make(path, form, how):
    rng = np.random.default_rng(3)
    x = sparse.random(230, 170, 0.3, "csr", dtype="f4", random_state=rng)
    x.data = np.ceil(x.data * 5)
    x = {"csr": x, "csc": x.tocsc(), "dense": x.toarray()}[form]
    anndata.AnnData(x, layers={"again": x}).write_h5ad(path)
    with h5py.File(path, "r+") as f:
        for at in ("X", "layers/again"):
            if form == "dense":
                rewrite(f[at].parent, at.split("/")[-1], **how)
            else:
                for name in ("data", "indices", "indptr"):
                    rewrite(f[at], name, **how)


@pytest.mark.parametrize("form", ["csr", "csc", "dense"])
@pytest.mark.parametrize("name", FILTERS)
def test_round_trip(name, form, tmp_path, wheel):
    source, store, out = tmp_path / "source.h5ad", tmp_path / "store", tmp_path / "out.h5ad"
    make(source, form, FILTERS[name])
    ok("pack", source, "-o", store, env=wheel)
    ok("export", store, "-o", out, env=wheel)
    ok("convert-check", source, out, env=wheel)
    got, want = (anndata.read_h5ad(p).X for p in (out, source))
    assert ((got != want).nnz if form != "dense" else (got != want).sum()) == 0


@pytest.mark.parametrize("name", WHEEL)
def test_missing(name, tmp_path, no_wheel):
    source, store = tmp_path / "source.h5ad", tmp_path / "store"
    make(source, "csr", FILTERS[name])
    message = refused(run("pack", source, "-o", store, env=no_wheel), "source.h5ad")
    assert f"filter {name} (number {WHEEL[name]})" in message and "/X/data" in message
    assert "`pip install hdf5plugin`" in message
    assert not store.exists()


def test_python_is_asked_only_when_a_filter_is_missing(tmp_path, no_wheel):
    asked = tmp_path / "asked"
    python = Path(no_wheel["PATH"].split(os.pathsep)[0]) / "python3"
    python.write_text(f"#!/bin/sh\ntouch '{asked}'\nexit 1\n")
    ok("pack", EXAMPLE, "-o", tmp_path / "store", env=no_wheel)
    assert not asked.exists()
    make(tmp_path / "source.h5ad", "csr", FILTERS["zstd"])
    run("pack", tmp_path / "source.h5ad", "-o", tmp_path / "other", env=no_wheel)
    assert asked.exists()


def test_caller_that_ignores_sigchld(tmp_path, wheel):
    """Then nothing tells how the python3 that was asked ended."""
    make(tmp_path / "source.h5ad", "csr", FILTERS["zstd"])
    ok("pack", tmp_path / "source.h5ad", "-o", tmp_path / "store", env=wheel, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))


def test_chunk_that_inflates_to_too_few_bytes(tmp_path):
    import zlib

    source = tmp_path / "source.h5ad"
    make(source, "csr", {"compression": "gzip"})
    with h5py.File(source, "r+") as f:
        f["X/data"].id.write_direct_chunk((200,), zlib.compress(bytes(4 * 99)))
    message = refused(run("pack", source, "-o", tmp_path / "store"), "source.h5ad")
    assert "/X/data: the chunk of rows 200 to 299" in message and "fewer than a chunk has" in message
    assert not (tmp_path / "store").exists()


def test_quiet(tmp_path):
    store = tmp_path / "store"
    for args in (("pack", EXAMPLE, "-o", store), ("export", store, "-o", tmp_path / "out.h5ad"), ("verify", store)):
        assert ok(*args, "--quiet").err == ""
    assert refused(run("pack", EXAMPLE, "-o", tmp_path / "store", "--quiet"), "store")
