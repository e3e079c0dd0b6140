"""pack --shuffle: rows of each part in a random order that the seed tells, which export undoes."""
import resource
import signal
import subprocess
import time
import warnings

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import made_files
import support
from h5compare import differences
from store_format import Manifest
from support import LONG, SANITIZED, Rows, by_gene, columns, fetch_csr, info, ok, real_files, refused, run, tree
from test_parts import GENES_A, GENES_B, cells
from test_roundtrip import BESIDE, NOT_YET, SLOW, node_of

ad = pytest.importorskip("anndata")
warnings.simplefilter("ignore")
ALL = ("--matrix", "all")

# ---- the permutation, written by the specification ----

WORD, GOLDEN = (1 << 64) - 1, 0x9E3779B97F4A7C15


def mix(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB & WORD
    return x ^ x >> 31


def number(key, i):
    return mix(key + (i + 1) * GOLDEN & WORD)


def key_of(seed):
    k = mix(seed + GOLDEN & WORD)
    for x in (4, 0, 0):
        k = mix((k ^ x) + GOLDEN & WORD)
    return k


def exchanged(n, key):
    a, at = list(range(n)), 0
    for i in range(n - 1, 0, -1):
        while True:
            product, at = number(key, at) * (i + 1), at + 1
            if product & WORD >= 2**64 % (i + 1):
                break
        a[i], a[product >> 64] = a[product >> 64], a[i]
    return a


def enciphered(n, key, places):
    bits = (n - 1).bit_length()
    c, d = bits // 2, bits - bits // 2
    keys = [number(key, i) for i in range(8)]

    def once(x):
        low, high = x & (1 << c) - 1, x >> c
        for i in range(8):
            if i % 2 == 0:
                high ^= mix(low + keys[i] & WORD) >> 64 - d
            else:
                low ^= mix(high + keys[i] & WORD) >> 64 - c
        return high << c | low

    out = []
    for x in places:
        x = once(x)
        while x >= n:
            x = once(x)
        out.append(x)
    return out


# ---- what is in the store ----


def check_order(store, n, seed, part=0):
    """The order is the stated one, kept both ways; it is returned: store row -> source row."""
    held = Manifest(store).row_order(part)
    if n < 2:
        assert held is None
        return np.arange(n)
    order, inverse = held["row_order"], held["row_order_inverse"]
    assert list(held) == ["row_order", "row_order_inverse"] and order.dtype == inverse.dtype == "u8" and len(order) == len(inverse) == n
    if n < 1 << 16:
        assert list(order) == exchanged(n, key_of(seed))
    else:
        some = range(0, n, 97)
        assert list(order[::97]) == enciphered(n, key_of(seed), some)
    assert (inverse[order] == np.arange(n)).all()
    return order


def check_rows(source, store, order):
    """Row i of every matrix is the source's row order[i]."""
    with h5py.File(source, "r", locking=False) as f:
        for m in info(store)["matrices"]:
            rows = Rows(node_of(f, m["name"]))
            for got, expected in zip(by_gene(*fetch_csr(store, m["name"], np.arange(len(order)))), by_gene(*rows.take(order))):
                assert got.tobytes() == expected.tobytes(), m["name"]


def check_columns(plain, store, order):
    """Columns of obs follow, those of var do not."""
    before, after = columns(plain), columns(store)
    assert list(before) == list(after)
    for (axis, name), column in before.items():
        expected = [column.values[i] for i in order] if axis == "obs" else column.values
        assert after[axis, name].values == expected, f"{axis}/{name}"


def check_exported(source, store, out):
    ok("export", store, "-o", out)
    found = differences(source, out)
    assert not found, "\n".join(found[:20])
    assert ok("convert-check", source, out).out.startswith("ok")


def check_shuffled(source, work, seed, *options):
    store, plain = work / "s.annblock", work / "plain.annblock"
    ok("pack", source, "-o", store, "--shuffle", seed, *options)
    ok("pack", source, "-o", plain, *options)
    n = info(store)["n_obs"]
    assert ok("verify", store).out.startswith("ok: ")
    assert info(store)["shuffled_parts"] == (n > 1) and info(plain)["shuffled_parts"] == 0
    assert bool(Manifest(store).export & 1) == (n > 1)
    check_exported(source, store, work / "out.h5ad")
    ok("head", store)
    if SANITIZED:
        return
    order = check_order(store, n, seed)
    check_columns(plain, store, order)
    check_rows(source, store, order)


MADE = [pytest.param(m, id=k) for k, m in {**made_files.ACCEPT, **made_files.MATRICES}.items()]


@pytest.mark.parametrize("make", MADE)
def test_made(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where h5py looks for files beside
    source = tmp_path / "a.h5ad"
    make(source)
    check_shuffled(source, tmp_path, 1, *ALL)


REAL = [p for p in real_files("accept") if p.name not in SLOW | set(NOT_YET) | set(BESIDE) and (LONG or p.stat().st_size < 3 << 20)]


@pytest.mark.parametrize("source", [pytest.param(p, id=p.name) for p in REAL] or [pytest.param(None, marks=pytest.mark.skip(reason="H5AD_DIR is not set"))])
def test_real(source, tmp_path):
    check_shuffled(source, tmp_path, 2**64 - 1, *ALL)


# ---- large parts ----


def large(path, n=70_000, m=300, form="csr", seed=0):
    """More rows than the permutation has a table for."""
    x = sp.random(n, m, 0.02, "csr", "f4", np.random.default_rng(seed), lambda k: np.random.default_rng(seed).integers(1, 9, k))
    return made_files.write(path, x if form == "csr" else x.tocsc(), [("batch", np.arange(n) // 1000), ("x", np.arange(n) * 0.5)])


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_many_rows(form, tmp_path):
    check_shuffled(large(tmp_path / "a.h5ad", form=form), tmp_path, 5)


def test_same_bytes(tmp_path):
    """Neither threads nor memory change a byte; the seed does."""
    source, trees = large(tmp_path / "a.h5ad", n=66_000), []
    for i, options in enumerate([["--threads", 1], ["--threads", 3, "--memory", "32M"], ["--memory", "1G"]]):
        ok("pack", source, "-o", tmp_path / str(i), "--shuffle", 3, *options)
        trees.append(tree(tmp_path / str(i)))
    assert trees[0] == trees[1] == trees[2]
    ok("pack", source, "-o", tmp_path / "other", "--shuffle", 4)
    assert tree(tmp_path / "other") != trees[0]
    ok("pack", source, "-o", tmp_path / "cut", "--shuffle", 3, "--segment-rows", 10_000)
    check_order(tmp_path / "cut", 66_000, 3)
    check_exported(source, tmp_path / "cut", tmp_path / "out.h5ad")


def wide(path, n, m=20_000, per_cell=500):
    """Written in pieces: as many elements as do not fit 64 MiB by far."""
    rng = np.random.default_rng(0)
    with h5py.File(made_files.write(path, sp.csr_matrix((n, m), dtype="f4"), [("note", np.array([f"the note of cell {i}" for i in range(n)], "O"))]), "r+") as f:
        for name, dtype in (("data", "f4"), ("indices", "i4")):
            del f["X"][name]
            f["X"].create_dataset(name, (n * per_cell,), dtype, chunks=(1 << 18,))
        for at in range(0, n, 1000):
            k = min(1000, n - at)
            part = slice(at * per_cell, (at + k) * per_cell)
            f["X/indices"][part] = np.sort(rng.integers(0, m // per_cell, (k, per_cell)) + np.arange(0, m, m // per_cell), axis=1).ravel()
            f["X/data"][part] = rng.integers(1, 9, k * per_cell)
        f["X/indptr"][:] = np.arange(n + 1) * per_cell
    return path


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    return wide(tmp_path_factory.mktemp("big") / "big.h5ad", 50_000 if LONG else 20_000)


@pytest.mark.skipif(SANITIZED, reason="sanitizers take memory of their own")
def test_memory_is_bounded(big, tmp_path):
    result = ok("pack", big, "-o", tmp_path / "s", "--shuffle", 9, "--memory", "64M", "--threads", 2)
    assert result.peak < 100 << 20, str(result)
    order = check_order(tmp_path / "s", info(tmp_path / "s")["n_obs"], 9)
    result = ok("export", tmp_path / "s", "-o", tmp_path / "out.h5ad", "--threads", 2)
    assert result.peak < 600 << 20, str(result)
    assert ok("convert-check", big, tmp_path / "out.h5ad").out.startswith("ok")
    some = np.arange(0, len(order), 501)
    with h5py.File(big) as f:
        _, indices, values = fetch_csr(tmp_path / "s", "X", some)
        lists = [f["X/data"][500 * r : 500 * r + 500] for r in order[some].astype("i8")]
        assert np.sort(values.reshape(len(some), -1)).tobytes() == np.sort(np.array(lists)).tobytes()
        assert columns(tmp_path / "s")["obs", "note"].values == [b"the note of cell %d" % r for r in order]


def test_killed(big, tmp_path):
    """kill -9 at many moments: no store, and the next one is whole."""
    for i in range(5):
        p = subprocess.Popen([support.CLI, "pack", big, "-o", tmp_path / "s", "--shuffle", "1", "--memory", "64M"], stderr=subprocess.DEVNULL)
        time.sleep(0.05 + 0.12 * i)
        p.send_signal(signal.SIGKILL)
        done = p.wait() == 0
        assert done or run("info", tmp_path / "s").code == 1
        if done:
            break
    small = tmp_path / "a.h5ad"
    made_files.ACCEPT["csr_unsorted"](small)
    ok("pack", small, "-o", tmp_path / "s", "--shuffle", 1, "--force")
    assert not list((tmp_path / "s" / "tmp").iterdir())
    check_exported(small, tmp_path / "s", tmp_path / "out.h5ad")


def test_full_disk(tmp_path):
    source = large(tmp_path / "a.h5ad")

    def little():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    result = run("pack", source, "-o", tmp_path / "s", "--shuffle", 1, preexec_fn=little)
    assert result.code == 1 and not (tmp_path / "s").exists(), str(result)


# ---- with the other commands ----


@pytest.fixture
def two(tmp_path):
    a = cells(1, 70, GENES_A, ["B", "T", "NK"], batch=lambda n: np.arange(n, dtype="i2"))
    b = cells(2, 50, GENES_B, ["T", "mono", "B"], dtype="i4", form=sp.csc_matrix)
    a.obsm["X_pca"], b.obsm["X_pca"] = (np.random.default_rng(x.n_obs).random((x.n_obs, 4)) for x in (a, b))
    a.write_h5ad(tmp_path / "a.h5ad")
    b.write_h5ad(tmp_path / "b.h5ad")
    return a, b


def test_several(two, tmp_path):
    """Each file by itself, one that is appended plain beside them; together in the order of the sources."""
    a, b = tmp_path / "a.h5ad", tmp_path / "b.h5ad"
    ok("pack", a, b, "-o", tmp_path / "s", "--join", "outer", "--shuffle", 11, *ALL)
    ok("append", tmp_path / "s", a, "--join", "outer", *ALL)
    ok("append", tmp_path / "s", b, "--join", "outer", "--shuffle", 12, *ALL)
    ok("verify", tmp_path / "s")
    assert info(tmp_path / "s")["shuffled_parts"] == 3 and "4 (3 with shuffled rows)" in ok("info", tmp_path / "s").out
    orders = [check_order(tmp_path / "s", 70, 11, 0), check_order(tmp_path / "s", 50, 11, 1), None, check_order(tmp_path / "s", 50, 12, 3)]
    assert Manifest(tmp_path / "s").row_order(2) is None
    sources, first = [two[0], two[1], two[0], two[1]], 0
    ok("pack", a, b, a, b, "-o", tmp_path / "plain", "--join", "outer", *ALL)
    names = [v for (axis, _), c in columns(tmp_path / "s", "joint").items() if axis == "obs" and c.is_index for v in c.values]
    for i, (source, order) in enumerate(zip(sources, orders)):
        order = np.arange(source.n_obs) if order is None else order.astype("i8")
        assert names[first : first + len(order)] == [n.encode() for n in source.obs_names[order]]
        for matrix in ("X", "obsm/X_pca"):
            got = fetch_csr(tmp_path / "s", matrix, first + np.arange(len(order)))
            expected = fetch_csr(tmp_path / "plain", matrix, first + order)
            assert all(x.tobytes() == y.tobytes() for x, y in zip(by_gene(*got), by_gene(*expected)))
        ok("export", tmp_path / "s", "-o", tmp_path / f"{i}.h5ad", "--part", i)
        assert not differences([a, b][i % 2], tmp_path / f"{i}.h5ad")
        first += len(order)
    ok("export", tmp_path / "s", "-o", tmp_path / "s.h5ad")
    ok("export", tmp_path / "plain", "-o", tmp_path / "plain.h5ad")
    assert not differences(tmp_path / "plain.h5ad", tmp_path / "s.h5ad")
    starts = np.cumsum([0, 70, 50, 70, 50])
    stored = np.concatenate([start + (np.arange(n) if o is None else o.astype("i8")) for start, n, o in zip(starts, np.diff(starts), orders)])
    wanted = [200, 3, 71, 119, 130, 0]
    for store, numbers in (("s", wanted), ("plain", stored[wanted])):
        (tmp_path / "rows").write_text("".join(f"{i}\n" for i in numbers))
        ok("export", tmp_path / store, "-o", tmp_path / f"{store}-rows.h5ad", "--rows-file", tmp_path / "rows")
        ok("export", tmp_path / store, "-o", tmp_path / f"{store}-where.h5ad", "--where", "score < 0.4")
    for what in ("rows", "where"):
        assert not differences(tmp_path / f"plain-{what}.h5ad", tmp_path / f"s-{what}.h5ad"), what


def test_generations(two, tmp_path):
    """A new generation may have another order; the one before keeps its own."""
    for seed in (1, 2):
        ok("pack", tmp_path / "a.h5ad", "-o", tmp_path / "s", "--shuffle", seed, "--force")
        check_order(tmp_path / "s", 70, seed)
        check_exported(tmp_path / "a.h5ad", tmp_path / "s", tmp_path / f"{seed}.h5ad")
    ok("export", tmp_path / "s", "-o", tmp_path / "old.h5ad", "--generation", 1)
    assert not differences(tmp_path / "a.h5ad", tmp_path / "old.h5ad")


@pytest.mark.parametrize("form", ["a", "b"])
def test_subset(two, form, tmp_path):
    source = tmp_path / f"{form}.h5ad"
    n = ad.read_h5ad(source).n_obs
    ok("pack", source, "-o", tmp_path / "s", "--shuffle", 6, "--matrix", "X")
    ok("pack", source, "-o", tmp_path / "plain", "--matrix", "X")
    order = check_order(tmp_path / "s", n, 6).astype("i8")
    wanted = [7, 3, 44, 0]
    for store, numbers in (("s", wanted), ("plain", order[wanted])):
        (tmp_path / "rows").write_text("".join(f"{i}\n" for i in numbers))
        ok("export", tmp_path / store, "-o", tmp_path / f"{store}-rows.h5ad", "--rows-file", tmp_path / "rows")
        ok("export", tmp_path / store, "-o", tmp_path / f"{store}-where.h5ad", "--where", "score < 0.4")
    for what in ("rows", "where"):
        assert not differences(tmp_path / f"plain-{what}.h5ad", tmp_path / f"s-{what}.h5ad"), what
    found = ad.read_h5ad(tmp_path / "s-rows.h5ad")
    expected = ad.read_h5ad(source)[order[wanted]]
    assert list(found.obs_names) == list(expected.obs_names) and (found.X.toarray() == expected.X.toarray()).all()
    assert (found.obsm["X_pca"] == expected.obsm["X_pca"]).all()
    assert ok("head", tmp_path / "s", "-n", "1").out.count(ad.read_h5ad(source).obs_names[order[0]]) == 1


def test_annotate(two, tmp_path):
    """New columns come in the order of the source and go to the rows they belong to."""
    a = two[0]
    ok("pack", tmp_path / "a.h5ad", "-o", tmp_path / "s", "--shuffle", 8)
    order = check_order(tmp_path / "s", 70, 8).astype("i8")
    new = ad.AnnData(obs=a.obs.copy(), var=a.var.copy(), X=a.X)
    new.obs["fresh"] = pd.Categorical([f"c{i % 3}" for i in range(70)])
    new.obs["number"] = np.arange(70)
    new.write_h5ad(tmp_path / "new.h5ad")
    ok("annotate", tmp_path / "s", "--from", tmp_path / "new.h5ad")
    ok("verify", tmp_path / "s")
    held = columns(tmp_path / "s")
    assert held["obs", "number"].values == [int(i).to_bytes(8, "little") for i in order]
    assert held["obs", "fresh"].values == [f"c{i % 3}".encode() for i in order]
    assert (check_order(tmp_path / "s", 70, 8) == order).all()
    check_exported(tmp_path / "new.h5ad", tmp_path / "s", tmp_path / "out.h5ad")
    wrong = new[np.roll(np.arange(70), 1)].copy()
    wrong.write_h5ad(tmp_path / "wrong.h5ad")
    message = refused(run("annotate", tmp_path / "s", "--from", tmp_path / "wrong.h5ad"), "wrong.h5ad")
    assert "cell 0 is 's1_69', in the store 's1_0'" in message


@pytest.mark.parametrize("seed", ["", "-1", "x", str(2**64)])
def test_bad_seed(seed, tmp_path):
    made_files.ACCEPT["csr_unsorted"](tmp_path / "a.h5ad")
    result = run("pack", tmp_path / "a.h5ad", "-o", tmp_path / "s", "--shuffle", seed)
    assert result.code == 2
    assert "--shuffle" in result.err and not (tmp_path / "s").exists()
