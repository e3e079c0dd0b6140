"""Neighbours over our stores. Each is left out where it is not installed: make check-peers."""

import re
import subprocess
import sys

import annblock
import anndata
import numpy as np
import pytest
from conftest import ROOT


def test_scdataset(example_store, adata):
    """The same batches over our collection as over the matrix in memory."""
    scdataset = pytest.importorskip("scdataset")
    from annblock.compat.scdataset import Collection

    def batches(collection):
        strategy = scdataset.BlockShuffling(block_size=16)
        return list(scdataset.scDataset(collection, strategy, batch_size=64, fetch_factor=4))

    np.random.seed(0)
    ours = batches(Collection(example_store))
    assert sum(b.shape[0] for b in ours) == 2000
    key = lambda x: x.toarray().tobytes()  # noqa: E731
    rows = {key(adata.X[[i]]) for i in range(2000)}
    assert all(key(b[[i]]) in rows for b in ours for i in range(b.shape[0]))
    streamed = list(scdataset.scDataset(Collection(example_store), scdataset.Streaming(), batch_size=64, fetch_factor=4))
    assert np.array_equal(np.vstack([b.toarray() for b in streamed]), adata.X.toarray())


def test_scdataset_callbacks(example_store, adata):
    from annblock.compat.scdataset import transform

    seen = transform(fetch_transform=lambda x: x.log1p(), batch_transform=lambda x: x.toarray())
    one = annblock.Loader(example_store, transform=seen, strategy="sequential")
    assert np.allclose(np.vstack(list(one)), np.log1p(adata.X.toarray()))


@pytest.mark.parametrize("strategy", ["block", "sequential", "buffer"])
def test_annbatch_sampler(example_store, adata, strategy):
    annbatch = pytest.importorskip("annbatch")
    from annblock.compat.annbatch import Sampler

    sampler = Sampler(64, 16, 8, strategy=strategy, seed=3)
    reference = annblock.Loader(example_store, 64, 16, 8, strategy, seed=3)
    for _ in range(2):
        got = [request["requests"][split] for request in sampler.sample(2000) for split in request["splits"]]
        assert all(np.array_equal(a, b.rows) for a, b in zip(got, reference, strict=True)) and len(got) == sampler.n_batches(2000)
    store = annblock.open(example_store)
    loader = annbatch.Loader(batch_sampler=Sampler(64, 16, 8, strategy=strategy, seed=3), return_index=True)
    loader.add_adata(anndata.AnnData(store.matrix().dense(), obs=store.obs[["plate"]]))
    every = []
    for batch in loader:
        every.append(batch["index"])
        assert np.array_equal(batch["X"], adata.X[batch["index"]].toarray())
    assert sorted(np.concatenate(every)) == list(range(2000))


def last_line(program, *arguments):
    """Of what an example prints."""
    program = ROOT / "examples" / program
    done = subprocess.run([sys.executable, program, *arguments], capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout.splitlines()[-1]


def test_lightning_example(example_store):
    pytest.importorskip("lightning")
    said = last_line("lightning_module.py", example_store, "cell_line")
    loss = re.fullmatch(r"loss ([0-9.]+) after 64 batches", said)
    assert loss and float(loss[1]) < 2.5


def test_scvi_example(example_store):
    pytest.importorskip("scvi")
    said = last_line("scvi_datamodule.py", example_store, "plate")
    assert said.startswith("after 32 minibatches: ")
    measured = {name: float(value) for name, value in (item.rsplit(" ", 1) for item in said.partition(": ")[2].split(", "))}
    assert 0 < measured["reconstruction_loss_train"] <= measured["elbo_train"] < 2000


def test_annbatch_mask():
    pytest.importorskip("annbatch")
    from annblock.compat.annbatch import Sampler

    rows = [r for request in Sampler(8, 4, 2, mask=slice(10, 60)).sample(100) for r in request["requests"]]
    assert sorted(rows) == list(range(10, 60))
    with pytest.raises(ValueError):
        list(Sampler(8, mask=slice(0, 200)).sample(100))
