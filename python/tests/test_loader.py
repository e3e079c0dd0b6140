"""The loader through Python, without torch."""

import gc
import os
import pickle
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import annblock
import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp


def rows_of(batches):
    return np.concatenate([np.asarray(b.rows) for b in batches])


def loader(store, **options):
    return annblock.Loader(store, **{"num_threads": 2, "batch_size": 32, "fetch_factor": 8, **options})


# ---- what a batch holds ----


@pytest.mark.parametrize(
    "options", [{}, {"sort_indices": True}, {"output": "dense"}, {"access": "pread"}, {"dtype": "int32"}, {"num_threads": 1}]
)
def test_batches_equal_the_source(store, adata, options):
    batches = list(loader(store, labels=["cell_line", "plate"], **options))
    assert sorted(rows_of(batches)) == list(range(2000))
    for batch in batches:
        expected = adata.X[batch.rows]
        got = batch.X if options.get("output") == "dense" else batch.X.toarray()
        assert got.shape == expected.shape and np.array_equal(got, expected.toarray())
        assert got.dtype == options.get("dtype", np.float32)
        for label in ("cell_line", "plate"):
            assert np.array_equal(batch.obs[label], adata.obs[label].cat.codes.to_numpy()[batch.rows])


def test_batch_is_a_dictionary(store):
    batch = next(iter(loader(store, labels="plate")))
    assert list(batch) == ["X", "obs", "rows", "epoch", "step", "batch"]
    assert batch["X"] is batch.X and batch["plate"] is batch.obs["plate"] and (batch.epoch, batch.step) == (0, 0)
    with pytest.raises(KeyError):
        batch["nope"]
    with pytest.raises(AttributeError, match="no 'nope'"):
        batch.nope
    again = pickle.loads(pickle.dumps(batch))
    assert type(again) is annblock.Batch and np.array_equal(again.rows, batch.rows) and (again.X != batch.X).nnz == 0
    assert "X=<csr_array 32×2400 float32>" in repr(batch)


def test_csr_is_scipys(store, adata):
    batch = next(iter(loader(store)))
    x = batch.X
    assert isinstance(x, sp.csr_array) and x.indices.dtype == x.indptr.dtype
    x.check_format(full_check=True)
    plain = sp.csr_array((x.data.copy(), x.indices.copy(), x.indptr.copy()), shape=x.shape)
    assert ((x @ x.T) != (plain @ plain.T)).nnz == 0 and (x[3:9] != plain[3:9]).nnz == 0
    assert np.allclose(x.sum(axis=0), plain.sum(axis=0)) and np.array_equal(x.T.toarray(), plain.T.toarray())
    x.sort_indices()
    assert np.array_equal(x.toarray(), adata.X[batch.rows].toarray())


def test_batches_stay_valid(store, adata):
    """Batches that are kept hold their memory, also when loader and store are gone."""
    one = loader(annblock.open(store.path))
    kept = [b for b, _ in zip(one, range(30))]
    rest = [x.data.sum() for x in (b.X for b in one)]
    del one
    gc.collect()
    assert len(rest) == 63
    for batch in kept:
        assert np.array_equal(batch.X.toarray(), adata.X[batch.rows].toarray())


# ---- order ----


def test_epochs_differ_and_repeat(store):
    one, two = loader(store, seed=5), loader(store, seed=5, num_threads=1)
    epochs = [rows_of(one) for _ in range(3)]
    assert len(one) == 63 and one.epoch == 3
    assert not np.array_equal(epochs[0], epochs[1]) and not np.array_equal(epochs[1], epochs[2])
    for epoch in epochs:
        assert np.array_equal(rows_of(two), epoch)
    one.set_epoch(1)
    assert np.array_equal(rows_of(one), epochs[1]) and one.epoch == 2
    assert not np.array_equal(rows_of(loader(store, seed=6)), epochs[0])


def test_an_epoch_left_early(store):
    one = loader(store)
    first = next(iter(one))
    second = next(iter(one))
    assert (first.epoch, second.epoch) == (0, 1)
    assert not np.array_equal(first.rows, second.rows)


def test_two_iterations_at_once(store):
    one = loader(store)
    a, b = iter(one), iter(one)
    pairs = list(zip(a, b))
    assert len(pairs) == 63 and {x.epoch for x, _ in pairs} == {0} and {y.epoch for _, y in pairs} == {1}
    assert sorted(np.concatenate([x.rows for x, _ in pairs])) == list(range(2000))


@pytest.mark.parametrize("strategy", ["block", "sequential", "buffer"])
def test_strategies(store, strategy):
    rows = rows_of(loader(store, strategy=strategy))
    assert sorted(rows) == list(range(2000))
    assert (rows == np.arange(2000)).all() == (strategy == "sequential")


def test_drop_last(store):
    assert len(loader(store, drop_last=True)) == 62 == len(list(loader(store, drop_last=True)))


def test_balanced(store, adata):
    one = loader(store, strategy="balanced", balance="cell_line", labels="cell_line", num_samples=20_000, block_size=4)
    codes = np.concatenate([b.obs["cell_line"] for b in one])
    assert len(codes) == 20_000 and np.allclose(np.bincount(codes) / len(codes), 1 / 6, atol=0.03)


def test_weighted(store):
    weights = np.zeros(2000)
    weights[100:140] = 1
    rows = rows_of(loader(store, strategy="weighted", weights=weights, num_samples=4000))
    assert len(rows) == 4000 and set(rows) == set(range(100, 140))
    with pytest.raises(annblock.ArgumentError, match="one number for each"):
        loader(store, strategy="weighted")


def test_own_order(store):
    mine = [[5, 6, 7], [1999], [0, 0, 3]]
    assert [list(b.rows) for b in loader(store, strategy=mine)] == mine
    by_epoch = loader(store, strategy=lambda epoch: [[epoch, 10 + epoch]] * (epoch + 1))
    assert [[list(b.rows) for b in by_epoch] for _ in range(2)] == [[[0, 10]], [[1, 11]] * 2]
    with pytest.raises(annblock.ArgumentError, match="batch_size is 32"):
        loader(store, strategy=[list(range(33))])


# ---- subsets ----


def test_rows(store, adata):
    mask = (adata.obs["plate"] == "plate2").to_numpy()
    for rows in (mask, np.flatnonzero(mask), list(adata.obs_names[mask])):
        assert sorted(rows_of(loader(store, rows=rows))) == list(np.flatnonzero(mask))
    with pytest.raises(annblock.ArgumentError, match="more than once"):
        loader(store, rows=[1, 1])


def test_where(store, adata):
    obs = adata.obs
    one = loader(store, where='plate == "plate2" and n_genes > 250')
    expected = np.flatnonzero((obs["plate"] == "plate2") & (obs["n_genes"] > 250))
    assert sorted(rows_of(one)) == list(expected)
    both = loader(store, where='plate == "plate2"', rows=slice(0, 1000))
    assert sorted(rows_of(both)) == list(np.flatnonzero((obs["plate"] == "plate2").to_numpy()[:1000]))
    classes = loader(store, where='plate == "plate2"', strategy="balanced", balance="cell_type", num_samples=500)
    assert set(obs["plate"].iloc[rows_of(classes)]) == {"plate2"}


def test_genes(store, adata):
    names = [*adata.var_names[[700, 3, 2399]], "no such gene", adata.var_names[0]]
    with pytest.warns(UserWarning, match="1 of 5 genes"):
        one = loader(store, genes=names)
    expected = np.c_[adata.X[:, [700, 3, 2399]].toarray(), np.zeros(2000), adata.X[:, [0]].toarray()]
    for batch in one:
        assert batch.X.shape[1] == 5 and np.array_equal(batch.X.toarray(), expected[batch.rows])
    assert one.genes == names
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for batch in loader(store, genes=[5, 2, 1], output="dense"):
            assert np.array_equal(batch.X, adata.X[batch.rows][:, [5, 2, 1]].toarray())
    with pytest.raises(annblock.RangeError):
        loader(store, genes=[2400])


def test_stored_gene_order(store, adata):
    one = loader(store, gene_order="stored", output="dense")
    places = adata.var_names.get_indexer(one.genes)
    batch = next(iter(one))
    assert np.array_equal(batch.X, adata.X[batch.rows].toarray()[:, places])


def test_several_stores(tmp_path):
    parts = []
    for i, (n, lines) in enumerate([(100, ["x", "y"]), (70, ["z", "x"])]):
        rng = np.random.default_rng(i)
        a = anndata.AnnData(
            sp.random(n, 30, 0.4, "csr", np.float32, rng),
            obs=pd.DataFrame({"line": pd.Categorical(rng.choice(lines, n), lines)}, index=[f"{i}_{j}" for j in range(n)]),
        )
        a.write_h5ad(tmp_path / f"{i}.h5ad")
        annblock.pack(tmp_path / f"{i}.h5ad", tmp_path / f"{i}.annblock")
        parts.append(a)
    x, lines = sp.vstack([a.X for a in parts]).tocsr(), np.concatenate([a.obs["line"] for a in parts])
    one = loader([tmp_path / "0.annblock", tmp_path / "1.annblock"], labels=["line"])
    batches = list(one)
    assert sorted(rows_of(batches)) == list(range(170)) and one.categories["line"] == ["x", "y", "z"]
    for batch in batches:
        assert np.array_equal(batch.X.toarray(), x[batch.rows].toarray())
        assert [one.categories["line"][c] for c in batch.obs["line"]] == list(lines[batch.rows])
    balanced = loader(
        [tmp_path / "0.annblock", tmp_path / "1.annblock"], labels=["line"], strategy="balanced", num_samples=6000, block_size=2
    )
    assert np.allclose(np.bincount(np.concatenate([b.obs["line"] for b in balanced])) / 6000, 1 / 3, atol=0.05)


@pytest.mark.parametrize("output", ["csr", "dense"])
def test_reused_buffers(store, output):
    """The same batches; arrays that are held see other cells, but there are few of them and all can be read."""
    held, places = [], set()
    reusing, usual = (loader(store, output=output, labels=["plate"], ring=3, reuse_buffers=reuse) for reuse in (True, False))
    for a, b in zip(reusing, usual, strict=True):
        x, y = (a.X, b.X) if output == "dense" else (a.X.toarray(), b.X.toarray())
        assert np.array_equal(x, y) and np.array_equal(a.rows, b.rows) and np.array_equal(a.obs["plate"], b.obs["plate"])
        values = a.X if output == "dense" else a.X.data
        held.append((values, a.rows, np.array(a.rows)))
        places.add(values.ctypes.data)
    assert len(places) <= 24 < len(held)
    assert any(not np.array_equal(rows, copy) for _, rows, copy in held[:-1])
    assert np.isfinite([values.sum() for values, *_ in held]).all()


MEMORY = """
import resource, sys
import annblock

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

loader = annblock.Loader(sys.argv[1], batch_size=32, output="dense", dtype="float32", num_threads=1, ring=3, reuse_buffers=sys.argv[2] == "reuse")
held = []
for epoch in range(12):
    held += [batch.X for batch in loader]
    if not epoch:
        before = resident()
print(resident() - before)
"""


def test_memory_of_reused_buffers(example_store):
    """Whatever is held, memory is flat; without reuse it is what is held."""
    grown = [
        int(subprocess.run([sys.executable, "-c", MEMORY, example_store, how], capture_output=True, text=True, check=True).stdout)
        for how in ("reuse", "keep")
    ]
    assert grown[0] < 8 << 20 and grown[1] > 11 * 2000 * 2400 * 4 * 0.8


def test_transform(store):
    assert list(loader(store, transform=lambda b: b.X.shape[0])) == [32] * 62 + [16]


# ---- ranks ----


def test_ranks(store):
    for epoch in range(2):
        got = [rows_of(self_at(store, r, 3, epoch)) for r in range(3)]
        counts = [len(self_at(store, r, 3, epoch)) for r in range(3)]
        assert counts == [21] * 3 and set(np.concatenate(got)) == set(range(2000))


def self_at(store, rank, world, epoch):
    one = loader(store, rank=rank, world_size=world)
    one.set_epoch(epoch)
    return one


# ---- state ----


def test_resume(store):
    whole = [b.rows for b in loader(store)]
    one = loader(store)
    it = iter(one)
    for _ in range(20):
        next(it)
    state = pickle.loads(pickle.dumps(one.state_dict()))
    two = loader(store)
    two.load_state_dict(state)
    assert two.epoch == 0 and two.state_dict() == state
    rest = [b.rows for b in two]
    assert len(rest) == 43 and all(np.array_equal(a, b) for a, b in zip(rest, whole[20:]))
    after = rows_of(two)
    reference = loader(store)
    reference.set_epoch(1)
    assert np.array_equal(after, rows_of(reference))


def test_state_is_left_alone(store):
    """Asking for length and categories after leaving an epoch early does not move the state."""
    one = loader(store, labels="plate")
    for batch in one:
        if batch.step == 4:
            break
    assert len(one) == 63 and len(one.categories["plate"]) == 6
    two = loader(store, labels="plate")
    two.load_state_dict(one.state_dict())
    whole = [b.rows for b in loader(store)]
    assert [b.rows.tolist() for b in two] == [r.tolist() for r in whole[5:]]


def test_resume_twice_and_at_the_ends(store):
    one = loader(store)
    assert one.state_dict() == {"annblock": 1, "epoch": 0, "state": None}
    whole = [b.rows for b in one]
    assert one.state_dict()["epoch"] == 1
    at = 0
    state = loader(store).state_dict()
    for steps in (1, 7, 30):
        two = loader(store)
        two.load_state_dict(state)
        it = iter(two)
        for _ in range(steps):
            assert np.array_equal(next(it).rows, whole[at])
            at += 1
        state = two.state_dict()
    with pytest.raises(annblock.ArgumentError):
        one.load_state_dict({"what": 1})


def test_resume_with_other_ranks(store):
    one = loader(store)
    it = iter(one)
    seen = [next(it).rows for _ in range(20)]
    state = one.state_dict()
    rest = []
    for rank in range(2):
        part = loader(store, rank=rank, world_size=2)
        part.load_state_dict(state)
        rest += [b.rows for b in part]
    every = np.concatenate(seen + rest)
    assert set(every) == set(range(2000)) and len(every) - 2000 <= 32


def test_state_of_another_loader(store):
    one = loader(store)
    it = iter(one)
    next(it)
    two = loader(store, batch_size=16)
    two.load_state_dict(one.state_dict())
    with pytest.raises(annblock.ArgumentError):
        next(iter(two))


# ---- life ----


def test_pickle(store):
    one = pickle.loads(pickle.dumps(loader(store, labels=["plate"])))
    assert sorted(rows_of(one)) == list(range(2000))
    rows_of(one)
    assert pickle.loads(pickle.dumps(one)).epoch == 2


def test_damage(tmp_path, example_h5ad):
    from test_store import damage

    annblock.pack(example_h5ad, tmp_path / "s")
    segment = damage(tmp_path / "s")
    with pytest.raises(annblock.CorruptError) as caught:
        list(loader(tmp_path / "s"))
    assert caught.value.path == str(segment) and caught.value.row is not None


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0}, {"block_size": -1}, {"fetch_factor": 1.5}, {"strategy": "random"}, {"output": "jax"}, {"access": "http"},
        {"gene_order": "alphabet"}, {"labels": ["nope"]}, {"labels": ["n_genes"]}, {"matrices": ["nope"]}, {"rank": 3, "world_size": 2},
        {"dtype": "complex64"},
    ],
)  # fmt: skip
def test_bad_options(store, options):
    with pytest.raises(annblock.Error):
        iter(loader(store, **options))


def test_no_leaks(store):
    def work(n):
        for i in range(n):
            one = annblock.Loader(store, batch_size=64, fetch_factor=4, num_threads=1, labels=["plate"])
            if i % 10 == 0:
                next(iter(one))
        gc.collect()

    from test_store import resident

    work(100)
    before, descriptors = resident(), len(os.listdir("/proc/self/fd"))
    work(1000)
    assert resident() - before < 8 << 20 and len(os.listdir("/proc/self/fd")) <= descriptors


INTERRUPTED = """
import annblock, sys, os, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
loader = annblock.Loader(sys.argv[1])
next(iter(loader))
threading.Thread(target=lambda: (time.sleep(0.2), os.kill(os.getpid(), signal.SIGINT)), daemon=True).start()
try:
    while True:
        for batch in loader:
            pass
except KeyboardInterrupt:
    print("interrupted")
"""


def test_interrupt(store):
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, store.path], capture_output=True, text=True, timeout=60)
    assert done.stdout == "interrupted\n" and done.returncode == 0, done


@pytest.mark.parametrize("uneven", ["pad", "drop"])
def test_epoch_without_batches(store, uneven):
    """No cells, or too few for one batch, are no batches for any rank."""
    for options in ({"rows": []}, {"rows": range(3), "drop_last": True}, {"where": "n_genes < 0"}):
        for rank in range(2):
            loader = annblock.Loader(store, batch_size=4, block_size=1, uneven=uneven, rank=rank, world_size=2, **options)
            assert len(loader) == 0 and list(loader) == [] and list(loader) == []
