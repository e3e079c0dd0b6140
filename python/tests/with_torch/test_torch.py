"""The loader with torch: DataLoader's workers, torch.distributed, StatefulDataLoader, tensors, training."""

import pickle
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import annblock  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset  # noqa: E402

N = 2000


def make(path, **options):
    return annblock.Loader(path, **{"batch_size": 32, "fetch_factor": 8, "labels": ["cell_line"], "num_threads": 1, **options})


def rows_of(batches):
    return [np.asarray(b["rows"]) for b in batches]


def same_set(a, b):
    """Whether two epochs have the same batches, in whatever order."""
    return sorted(x.tobytes() for x in a) == sorted(x.tobytes() for x in b)


# ---- what it is ----


def test_is_a_dataset(example_store):
    loader = make(example_store)
    assert isinstance(loader, IterableDataset) and isinstance(loader, annblock.Loader)
    again = pickle.loads(pickle.dumps(loader))
    assert type(again) is type(loader) and type(again).__module__ == "annblock.torch_loader"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(DataLoader(loader, batch_size=None)) == 63


def test_tensors(example_store, adata):
    for batch in make(example_store, output="torch"):
        assert batch.X.dtype == torch.float32 and batch.rows.dtype == torch.int64 and batch.obs["cell_line"].dtype == torch.int64
        assert np.array_equal(batch.X.numpy(), adata.X[batch.rows.numpy()].toarray())
        assert np.array_equal(batch["cell_line"].numpy(), adata.obs["cell_line"].cat.codes.to_numpy()[batch.rows.numpy()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that sparse CSR is in beta
        for batch in make(example_store, output="torch_sparse", sort_indices=True):
            assert batch.X.layout is torch.sparse_csr and np.array_equal(batch.X.to_dense().numpy(), adata.X[batch.rows.numpy()].toarray())


def test_tensors_can_be_written(example_store, adata):
    kept = []
    for batch in make(example_store, output="torch"):
        batch.X.log1p_()
        kept.append(batch)
    for batch in kept:
        assert torch.allclose(batch.X, torch.log1p(torch.from_numpy(adata.X[batch.rows.numpy()].toarray())))
    assert batch.to(torch.float64).X.dtype == torch.float64 and isinstance(batch.to("cpu"), annblock.Batch)


def test_collates_and_pins(example_store):
    batch = next(iter(DataLoader(make(example_store, output="torch"), batch_size=None)))
    assert isinstance(batch, annblock.Batch) and batch.X.shape == (32, 2400)


# ---- workers ----


def epochs_of(loader, n):
    return [rows_of(loader) for _ in range(n)]


def check_epochs(epochs, reference):
    for got, expected in zip(epochs, reference, strict=True):
        assert sorted(np.concatenate(got)) == list(range(N))
        assert same_set(got, expected)


@pytest.fixture(scope="module")
def reference(example_store):
    return epochs_of(make(example_store), 4)


@pytest.mark.parametrize(
    "workers, method, persistent", [(1, "fork", False), (2, "fork", False), (3, "fork", True), (2, "spawn", False), (1, "spawn", True)]
)
def test_workers(example_store, reference, workers, method, persistent):
    loader = make(example_store)
    data = DataLoader(loader, batch_size=None, num_workers=workers, multiprocessing_context=method, persistent_workers=persistent)
    check_epochs(epochs_of(data, 2), reference[:2])
    assert len(data) == 63
    loader.set_epoch(1)
    check_epochs(epochs_of(data, 1), reference[1:2])


def test_workers_after_iterating_here(example_store, reference):
    """Threads of the parent do not matter to forked workers; changing the number of workers repeats no epoch."""
    loader = make(example_store, num_threads=2)
    it = iter(loader)
    next(it)
    data = DataLoader(loader, batch_size=None, num_workers=2, multiprocessing_context="fork")
    check_epochs(epochs_of(data, 1), reference[1:2])
    data = DataLoader(loader, batch_size=None, num_workers=3, multiprocessing_context="fork")
    check_epochs(epochs_of(data, 1), reference[2:3])
    check_epochs(epochs_of(loader, 1), reference[3:4])
    assert len(rows_of(it)) == 62


def test_more_workers_than_fetches(example_store, reference):
    data = DataLoader(make(example_store), batch_size=None, num_workers=12, multiprocessing_context="fork")
    check_epochs(epochs_of(data, 1), reference[:1])


def test_errors_come_from_workers(tmp_path, example_h5ad):
    sys.path.insert(0, str(example_h5ad.parent.parent / "python/tests"))
    from test_store import damage

    annblock.pack(example_h5ad, tmp_path / "s")
    damage(tmp_path / "s")
    with pytest.raises(annblock.CorruptError, match="row"):
        list(DataLoader(make(tmp_path / "s"), batch_size=None, num_workers=2, multiprocessing_context="fork"))


# ---- StatefulDataLoader ----


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("steps", [0, 20, 61])
def test_stateful(example_store, workers, steps):
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    def data():
        return stateful(make(example_store), batch_size=None, num_workers=workers, multiprocessing_context="fork" if workers else None)

    one = data()
    whole = [rows_of(one), rows_of(one)]
    two = data()
    it = iter(two)
    for _ in range(steps):
        next(it)
    state = pickle.loads(pickle.dumps(two.state_dict()))
    del it
    three = data()
    three.load_state_dict(state)
    rest = rows_of(three)
    assert len(rest) == 63 - steps and all(np.array_equal(a, b) for a, b in zip(rest, whole[0][steps:], strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(rows_of(three), whole[1], strict=True))


# ---- torch.distributed ----


def in_group(rank, world, where, path, workers, out):
    dist.init_process_group("gloo", init_method=f"file://{where}", rank=rank, world_size=world)
    try:
        loader = make(path)
        data = DataLoader(loader, batch_size=None, num_workers=workers, multiprocessing_context="spawn") if workers else loader
        epochs = epochs_of(data, 2)
        counts = torch.tensor([len(e) for e in epochs])
        dist.all_reduce(counts, dist.ReduceOp.MAX)
        assert counts.tolist() == [len(e) for e in epochs] == [len(loader)] * 2
        state, rest = None, None
        if not workers:
            it = iter(loader)
            begun = [next(it)["rows"] for _ in range(9)]
            state = loader.state_dict()
            again = make(path)
            again.load_state_dict(state)
            rest = rows_of(again)
            assert all(np.array_equal(a, b["rows"]) for a, b in zip(rest, it, strict=True))
            rest = begun + rest
        torch.save({"epochs": epochs, "state": state, "resumed": rest}, f"{out}.{rank}")
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("world, workers", [(2, 0), (3, 0), (2, 2)])
def test_ddp(example_store, tmp_path, world, workers):
    context = mp.get_context("spawn")
    processes = [
        context.Process(target=in_group, args=(r, world, tmp_path / "group", str(example_store), workers, tmp_path / "out"))
        for r in range(world)
    ]
    for p in processes:
        p.start()
    for p in processes:
        p.join(180)
        assert p.exitcode == 0
    got = [torch.load(f"{tmp_path / 'out'}.{r}", weights_only=False) for r in range(world)]
    for epoch in range(2):
        batches = [b for g in got for b in g["epochs"][epoch]]
        every = np.concatenate(batches)
        assert set(every) == set(range(N)) and len(batches) == -(-63 // world) * world
    assert not any(np.array_equal(a, b) for g in got for a, b in zip(*g["epochs"]))
    if not workers:
        assert set(np.concatenate([b for g in got for b in g["resumed"]])) == set(range(N))
        resume_with_one_rank(example_store, got, world)


def resume_with_one_rank(path, got, world):
    """A state of several ranks goes on with one: nothing is skipped."""
    loader = make(path)
    loader.load_state_dict(got[0]["state"])
    rest = rows_of(loader)
    begun = [b for g in got for b in g["resumed"][:9]]
    assert sorted(np.concatenate(begun + rest)) == list(range(N))


# ---- training ----


def train(batches, n_genes, n_classes):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(n_genes, 16), torch.nn.ReLU(), torch.nn.Linear(16, n_classes))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    losses = []
    for x, y in batches:
        loss = torch.nn.functional.cross_entropy(model(torch.log1p(x)), y, ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_training_reaches_the_same_loss(example_store, adata):
    """From the store as from the AnnData in memory, with the same order: bit for bit, and it learns."""
    loader = make(example_store, labels=["cell_type"], output="torch")
    orders = [rows_of(loader) for _ in range(4)]
    loader.set_epoch(0)
    x, y = torch.from_numpy(adata.X.toarray()), torch.from_numpy(adata.obs["cell_type"].cat.codes.to_numpy().astype(np.int64))
    n = len(adata.obs["cell_type"].cat.categories)
    ours = train(((b.X, b.obs["cell_type"]) for _ in range(4) for b in loader), adata.n_vars, n)
    theirs = train(((x[rows], y[rows]) for order in orders for rows in order), adata.n_vars, n)
    assert ours == theirs and np.mean(ours[-20:]) < 0.8 * np.mean(ours[:20])


def test_readme(tmp_path):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import readme

    assert len(readme.run(tmp_path)) == 3
