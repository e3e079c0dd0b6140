"""The orders that pack finds and keeps: of genes, and of the source's elements; and that export gives the source's back."""
import shutil
import struct
import time

import h5py
import numpy as np
import pytest

import made_files
from h5compare import differences
from store_format import Manifest
from support import LONG, SANITIZED, ok, tree


N, M = 1500, 300


def reorder(x, rank_of):
    """Row (CSC: column) i ascends by rank_of(i)[index]; repeats stay in their order."""
    x = x.copy()
    for i in range(len(x.indptr) - 1):
        part = slice(x.indptr[i], x.indptr[i + 1])
        order = np.argsort(rank_of(i)[x.indices[part]], kind="stable")
        x.indices[part], x.data[part] = x.indices[part][order], x.data[part][order]
    return x


def matrix(form="csr"):
    """Genes of very different frequency."""
    rng = np.random.default_rng(3)
    x = rng.integers(1, 9, (N, M)) * (rng.random((N, M)) < rng.beta(0.4, 2, M))
    return getattr(made_files.sp, form + "_matrix")(x.astype("f4"))


def with_repeats(x):
    for i in range(len(x.indptr) - 1):
        a, b = x.indptr[i : i + 2]
        if b - a > 6:
            x.indices[a + 2] = x.indices[a + 1]
            x.indices[a + 5] = x.indices[a + 4] = x.indices[a + 3]
    return x


def pack(tmp_path, x, *options, name="s", **filters):
    source, store = tmp_path / f"{name}.h5ad", tmp_path / f"{name}.annblock"
    made_files.write(source, x, **filters)
    ok("pack", source, "-o", store, *options)
    ok("verify", store)
    out = tmp_path / "out.h5ad"
    ok("export", store, "-o", out)
    assert not differences(source, out)
    out.unlink()
    return Manifest(store)


def detected(x):
    counts = np.asarray((x != 0).sum(0)).ravel()
    return np.lexsort((np.arange(M), -counts))


def sorted_shas(tmp_path):
    return pack(tmp_path, matrix(), name="sorted").segments()


# ---- genes ----


@pytest.mark.parametrize("form", ["csr", "csc", "dense"])
def test_detected(tmp_path, form):
    x = matrix("csr" if form == "dense" else form)
    m = pack(tmp_path, x.toarray() if form == "dense" else x)
    assert (m.gene_order() == detected(x)).all()
    assert m.order_object() is None and m.export == 0
    data = m.object([k for _, k in m.objects].index(1))
    incompat, export = struct.unpack_from("<QQ", data, 16)
    assert (incompat, export) == (1, 1)
    assert data[128 - 40 : 128 - 8].hex() == m.objects[m.part_matrices[0][5]][0]
    assert m.segments() == sorted_shas(tmp_path), "the form of the source must not change the segments"


@pytest.mark.parametrize("form", ["csr", "csc", "dense"])
def test_source(tmp_path, form):
    x = matrix("csr" if form == "dense" else form)
    m = pack(tmp_path, x.toarray() if form == "dense" else x, "--gene-order", "source")
    assert m.gene_order() is None and m.order_object() is None
    assert struct.unpack_from("<QQ", m.object([k for _, k in m.objects].index(1)), 16) == (0, 1)


def test_no_gene_order_without_need(tmp_path):
    x = np.ones((20, M), "f4")
    assert pack(tmp_path, x).gene_order() is None


def test_detected_is_smaller(tmp_path):
    def size(m):
        return sum(len(m.object(i)) for i, (_, kind) in enumerate(m.objects) if kind == 1)

    rng = np.random.default_rng(1)
    x = made_files.sp.csr_matrix((rng.random((2000, 4000)) < rng.beta(0.1, 1.5, 4000)).astype("f4"))
    assert size(pack(tmp_path, x, name="a")) < 0.9 * size(pack(tmp_path, x, "--gene-order", "source", name="b"))


def test_bad_choice(tmp_path):
    from support import run

    result = run("pack", "a.h5ad", "-o", tmp_path / "s", "--gene-order", "alphabet")
    assert result.code == 2 and "detected" in result.err


# ---- the source's order, CSR ----


def test_one_order_of_genes(tmp_path):
    rank = np.random.default_rng(4).permutation(M)
    m = pack(tmp_path, reorder(matrix(), lambda i: rank))
    held = m.order_object()
    assert m.export == 2 and list(held) == ["source_order"], "every row ascends under one order, so there are no entries"
    assert held["source_order"].dtype == "u4" and (np.sort(held["source_order"]) == np.arange(M)).all()
    x, place = reorder(matrix(), lambda i: rank), np.argsort(held["source_order"])
    for i in range(N):
        assert (np.diff(place[x.indices[x.indptr[i] : x.indptr[i + 1]]]) >= 0).all()
    assert m.segments() == sorted_shas(tmp_path)


def test_random_order(tmp_path):
    rng = np.random.default_rng(5)
    x = reorder(matrix(), lambda i: rng.permutation(M))
    m = pack(tmp_path, x)
    held = m.order_object()
    assert list(held) == ["order_rows", "order_ends", "order_bits"]
    sorted_rows = [i for i in range(N) if (np.diff(x.indices[x.indptr[i] : x.indptr[i + 1]]) >= 0).all()]
    assert (held["order_rows"] == np.setdiff1d(np.arange(N), sorted_rows)).all()
    assert held["order_ends"][-1] == len(held["order_bits"]) and (np.diff(held["order_ends"].astype("i8")) > 0).all()
    assert m.segments() == sorted_shas(tmp_path)


def test_partly_unsorted(tmp_path):
    rng = np.random.default_rng(6)
    m = pack(tmp_path, reorder(matrix(), lambda i: rng.permutation(M) if i % 100 == 7 else np.arange(M)))
    held = m.order_object()
    assert (held["order_rows"] == np.arange(7, N, 100)).all() and "source_order" not in held


def test_swapped_neighbours(tmp_path):
    """Two elements of each row change places: entries list moves."""
    x = matrix()
    for i in range(N):
        a, b = x.indptr[i], x.indptr[i + 1]
        if b - a > 40:
            for v in (x.indices, x.data):
                v[[a + 10, a + 30]] = v[[a + 30, a + 10]]
    held = pack(tmp_path, x).order_object()
    starts = np.r_[0, held["order_ends"][:-1]].astype("i8")
    assert (held["order_bits"][starts] == 2).all()
    assert len(held["order_bits"]) < 12 * len(starts)


@pytest.mark.parametrize("kind", ["sorted", "one order", "random"])
def test_repeats(tmp_path, kind):
    rng = np.random.default_rng(7)
    one = rng.permutation(M)
    rank = {"sorted": lambda i: np.arange(M), "one order": lambda i: one, "random": lambda i: rng.permutation(M)}[kind]
    m = pack(tmp_path, reorder(with_repeats(matrix()), rank))
    assert (m.order_object() is None) == (kind == "sorted")


def test_repeats_apart(tmp_path):
    """Under no order of genes do repeats stand apart."""
    x = matrix()
    for i in range(N):
        a, b = x.indptr[i], x.indptr[i + 1]
        if b - a > 4:
            x.indices[b - 1] = x.indices[a]
    assert "order_rows" in pack(tmp_path, x).order_object()


def test_dtypes(tmp_path):
    rng = np.random.default_rng(8)
    for dtype in ("i1", "u2", "f8", "bool"):
        pack(tmp_path, reorder(matrix(), lambda i: rng.permutation(M)).astype(dtype), name=dtype)


# ---- the source's order, CSC ----


def kept_indices(tmp_path, store):
    out = [p for p in (store / "objects").iterdir() if p.suffix == ".h5"]
    with h5py.File(out[0], "r") as f:
        node = f.get("X/indices")
        return node is not None and "annblock.shell" not in node.attrs


def test_one_order_of_rows(tmp_path):
    rank = np.random.default_rng(9).permutation(N)
    m = pack(tmp_path, reorder(with_repeats(matrix("csc")), lambda i: rank))
    held = m.order_object()
    assert m.export == 2 and list(held) == ["source_order"]
    assert held["source_order"].dtype == "u8" and (np.sort(held["source_order"]) == np.arange(N)).all()
    assert not kept_indices(tmp_path, m.store)


def test_random_rows(tmp_path):
    rng = np.random.default_rng(10)
    m = pack(tmp_path, reorder(matrix("csc"), lambda i: rng.permutation(N)))
    assert m.order_object() is None and m.export == 0
    assert kept_indices(tmp_path, m.store)
    assert m.segments() == sorted_shas(tmp_path)


def test_one_odd_column(tmp_path):
    rank = np.random.default_rng(11).permutation(N)
    m = pack(tmp_path, reorder(matrix("csc"), lambda i: np.arange(N) if i == 200 else rank))
    assert m.order_object() is None and kept_indices(tmp_path, m.store)


# ---- more than the sample ----


@pytest.mark.skipif(SANITIZED, reason="takes long")
@pytest.mark.parametrize("form", ["csr", "csc"])
def test_larger_than_the_sample(tmp_path, form):
    """4.5 million elements, chunked and compressed: most rows are not looked at before."""
    rng = np.random.default_rng(12)
    n, m = 9000, 1000
    x = (rng.random((n, m)) < np.where(np.arange(m) % 2, 0.95, 0.05)).astype("u1")
    rank = rng.permutation(m if form == "csr" else n)
    x = reorder(getattr(made_files.sp, form + "_matrix")(x), lambda i: rank)
    held = pack(tmp_path, x, compression="gzip", compression_opts=1).order_object()
    assert "source_order" in held
    if form == "csr":
        assert len(held.get("order_rows", [])) < n / 2


# ---- the same bytes ----


@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_deterministic(tmp_path, kind):
    rng = np.random.default_rng(13)
    rank = rng.permutation(M if kind == "csr" else N)
    x = reorder(matrix(kind), lambda i: rng.permutation(M) if kind == "csr" and i % 9 == 0 else rank)
    made_files.write(tmp_path / "in.h5ad", x, compression="gzip")
    same_trees(tmp_path)


def same_trees(tmp_path):
    """Threads, memory and the time (seconds apart, so that a stored time would differ) do not change a byte."""
    choices = [["--threads", 1], ["--threads", 2], ["--threads", 3], ["--memory", "32M"]]
    choices += [["--memory", "128M", "--threads", 1], ["--memory", "1G", "--threads", 2]]
    first = None
    for i, options in enumerate(choices):
        ok("pack", tmp_path / "in.h5ad", "-o", tmp_path / "s", *options)
        found = tree(tmp_path / "s")
        shutil.rmtree(tmp_path / "s")
        if first is None:
            first = found
            time.sleep(2.1)
        assert found.keys() == first.keys(), options
        assert all(found[name] == first[name] for name in first), options


@pytest.mark.skipif(not LONG, reason="make check-long packs it")
@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_deterministic_large(tmp_path, kind):
    """More elements than the smaller memories hold at once."""
    rng = np.random.default_rng(14)
    x = made_files.sp.random(40000, 2000, 0.2, kind, "f4", rng)
    x.data = rng.integers(1, 9, x.nnz).astype("f4")
    made_files.write(tmp_path / "in.h5ad", x)
    same_trees(tmp_path)
