"""What holds for the loader whatever its parameters: each cell once, ranks alike, resuming exact, threads without influence."""

import itertools

import annblock
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

some = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
STRATEGIES = ["block", "sequential", "buffer"]


@st.composite
def parameters(draw):
    """Options of a Loader over some of the 2000 cells, small enough that an epoch takes milliseconds."""
    options = {name: draw(st.integers(1, most)) for name, most in (("batch_size", 70), ("block_size", 40), ("fetch_factor", 9))}
    options |= {"strategy": draw(st.sampled_from(STRATEGIES)), "seed": draw(st.integers(0, 2**64 - 1)), "drop_last": draw(st.booleans())}
    first, n, step = draw(st.integers(0, 500)), draw(st.integers(1, 500)), draw(st.integers(1, 3))
    return options | {"rows": np.arange(first, first + n * step, step)}


def loader(store, options, **more):
    return annblock.Loader(store, **{"num_threads": 1, **options, **more})


def batches_of(options):
    n, m = len(options["rows"]), options["batch_size"]
    return n // m if options["drop_last"] else -(-n // m)


def rows_of(batches):
    return [b.rows for b in batches]


def flat(batches):
    return np.concatenate([np.empty(0, np.int64), *batches])


def same(a, b):
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b))


@some
@given(options=parameters(), threads=st.integers(1, 3), access=st.sampled_from(["mmap", "pread"]), epoch=st.integers(0, 2**40))
def test_an_epoch(store, adata, options, threads, access, epoch):
    """Cells come once each, as they are in the source; the same with other threads and access, and in another order the next time."""
    one = loader(store, options, output="dense", labels=["plate"])
    one.set_epoch(epoch)
    x, codes = adata.X, adata.obs["plate"].cat.codes.to_numpy()
    every = list(one)
    assert len(every) == len(one) == batches_of(options)
    for step, batch in enumerate(every):
        assert (batch.epoch, batch.step) == (epoch, step)
        assert np.array_equal(batch.X, x[batch.rows].toarray()) and np.array_equal(batch.obs["plate"], codes[batch.rows])
    rows, got = options["rows"], flat(rows_of(every))
    assert len(np.unique(got)) == len(got) and np.isin(got, rows).all()
    assert len(got) == (len(every) * options["batch_size"] if options["drop_last"] else len(rows))
    other = loader(store, options, num_threads=threads, access=access)
    other.set_epoch(epoch)
    assert same(rows_of(other), rows_of(every))
    fetch = options["fetch_factor"] * options["batch_size"]  # what is shuffled together; of 10 cells and more no two orders are the same
    if options["strategy"] != "sequential" and min(fetch, len(got)) >= 10:
        assert not same(rows_of(other), rows_of(every))


@some
@given(options=parameters(), world=st.integers(1, 5), uneven=st.sampled_from(["pad", "drop"]))
def test_ranks(store, options, world, uneven):
    """Equally many batches, together those of one rank: at most world - 1 repeated or left out."""
    whole = rows_of(loader(store, options))
    if uneven == "drop" and 0 < len(whole) < world:
        with pytest.raises(annblock.ArgumentError, match="no rank would get any"):
            len(loader(store, options, rank=0, world_size=world, uneven=uneven))
        return
    ranks = [loader(store, options, rank=r, world_size=world, uneven=uneven) for r in range(world)]
    got = [rows_of(one) for one in ranks]
    expected = (len(whole) + (world - 1 if uneven == "pad" else 0)) // world
    assert [len(g) for g in got] == [len(one) for one in ranks] == [expected] * world
    names, dealt = {b.tobytes() for b in whole}, [b.tobytes() for g in got for b in g]
    if uneven == "pad":
        assert set(dealt) == names
    else:
        assert len(set(dealt)) == len(dealt) and set(dealt) <= names


@some
@given(options=parameters(), before=st.integers(1, 4), after=st.integers(1, 4), data=st.data())
def test_resuming(store, options, before, after, data):
    """From any batch, with another number of ranks: nothing is skipped, and repeated only where the last round is filled up."""
    whole = [b.tobytes() for b in rows_of(loader(store, options))]
    first = [loader(store, options, rank=r, world_size=before) for r in range(before)]
    steps = data.draw(st.integers(0, len(whole) // before))
    begun = [b.rows for one in first for b in itertools.islice(one, steps)]
    state = first[0].state_dict()
    rest = []
    for rank in range(after):
        one = loader(store, options, rank=rank, world_size=after)
        one.load_state_dict(state)
        assert one.epoch == state["epoch"]
        rest.append([b.rows for b in one] if state["epoch"] == 0 else [])
    assert len({len(r) for r in rest}) == 1
    dealt = [b.tobytes() for b in [*begun, *itertools.chain(*rest)]]
    assert set(dealt) == set(whole) and len(dealt) < len(whole) + max(before, after)


@some
@given(options=parameters(), steps=st.lists(st.integers(0, 6), max_size=6))
def test_resuming_again_and_again(store, options, steps):
    """A run that is cut any number of times gives what one that is not gives."""
    whole, got, state = rows_of(loader(store, options)), [], loader(store, options).state_dict()
    for n in steps:
        one = loader(store, options)
        one.load_state_dict(state)
        got += [b.rows for b in itertools.islice(one, n)]
        state = one.state_dict()
    if state["epoch"] == 0:
        one = loader(store, options)
        one.load_state_dict(state)
        got += rows_of(one)
    assert same(got[: len(whole)], whole)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_genes_and_matrices_in_step(store, adata, strategy):
    """A vocabulary in any order, with genes that are not there, beside labels: columns are those that were asked for."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        genes = rng.permutation(2400)[: rng.integers(1, 50)]
        genes[rng.random(len(genes)) < 0.2] = -1
        x = np.where(genes < 0, 0, adata.X[:, np.maximum(genes, 0)].toarray())
        for batch in loader(store, {"strategy": strategy, "batch_size": 100}, genes=genes, output="dense"):
            assert np.array_equal(batch.X, x[batch.rows])
