"""Orders of minibatches against a second implementation, written from include/annblock/sampler.h alone; the commands around them."""
import json
import math

import anndata as ad
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from support import ok, run

MASK = (1 << 64) - 1
G = 0x9E3779B97F4A7C15


def mix(x):
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & MASK
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def random(key, i):
    return mix(key + (i + 1) * G & MASK)


def make_key(seed, purpose, epoch, number):
    k = mix(seed + G & MASK)
    for x in (purpose, epoch, number):
        k = mix((k ^ x) + G & MASK)
    return k


def permutation(n, key):
    """A function from place to value."""
    if n >= 1 << 16:
        bits = (n - 1).bit_length()
        c, d = bits // 2, bits - bits // 2

        def at(i):
            while True:
                low, high = i & (1 << c) - 1, i >> c
                for r in range(8):
                    if r % 2 == 0:
                        high ^= mix(low + random(key, r) & MASK) >> (64 - d)
                    else:
                        low ^= mix(high + random(key, r) & MASK) >> (64 - c)
                i = high << c | low
                if i < n:
                    return i

        return at
    table, used = list(range(n)), 0
    for i in range(n - 1, 0, -1):
        while True:
            product = random(key, used) * (i + 1)
            used += 1
            if product & MASK >= (1 << 64) % (i + 1):
                break
        j = product >> 64
        table[i], table[j] = table[j], table[i]
    return lambda i: table[i]


def batches(n, b, m, f, seed, epoch, strategy="block", drop_last=False):
    """All batches of an epoch, by number."""
    runs = -(-n // b)
    members = list(range(n))
    if strategy == "block" and n:
        p = permutation(runs, make_key(seed, 1, epoch, 0))
        members = [x for i in range(runs) for x in range(p(i) * b, min(n, p(i) * b + b))]
    if strategy != "sequential":
        for fetch in range(-(-n // (m * f))):
            part = members[fetch * m * f:(fetch + 1) * m * f]
            p = permutation(len(part), make_key(seed, 2, epoch, fetch))
            members[fetch * m * f:(fetch + 1) * m * f] = [part[p(i)] for i in range(len(part))]
    out = [members[i:i + m] for i in range(0, n, m)]
    return out[:-1] if drop_last and out and len(out[-1]) < m else out


def dealt(total, f, rank, world, epoch):
    """Numbers of a rank's batches, in order; pad."""
    rounds = total // (world * f)
    left = total - rounds * world * f
    if rounds and 0 < left < world:
        rounds -= 1
        left += world * f
    slot, x = (rank + epoch) % world, left % world
    out = [(r * world + slot) * f + j for r in range(rounds) for j in range(f)]
    return out + [rounds * world * f + (i * world + slot + epoch * x) % left for i in range(-(-left // world))]


def sampled(store, *options):
    lines = [line.split(":") for line in ok("sample", store, *options).out.splitlines()]
    return [(int(a), [int(x) for x in b.split()]) for a, b in lines]


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """By number of cells."""
    folder, made = tmp_path_factory.mktemp("sampling"), {}

    def get(n):
        if n not in made:
            obs = pd.DataFrame({"plate": pd.Categorical.from_codes(np.arange(n) * 14 // max(n, 1), [f"p{i}" for i in range(14)])},
                               index=[f"c{i}" for i in range(n)])
            x = sp.csr_matrix((np.ones(n, "f4"), (np.arange(n), np.arange(n) % 5)), shape=(n, 5))
            ad.AnnData(x, obs=obs).write_h5ad(folder / f"{n}.h5ad")
            made[n] = folder / f"{n}.annblock"
            ok("pack", folder / f"{n}.h5ad", "-o", made[n])
        return made[n]

    return get


@pytest.mark.parametrize("n, b, m, f, strategy", [(1000, 16, 64, 4, "block"), (1003, 7, 10, 3, "block"), (1000, 1, 9, 1000, "block"),
                                                  (1003, 7, 10, 3, "buffer"), (1003, 7, 10, 3, "sequential"), (70000, 1, 64, 256, "block"),
                                                  (70001, 3, 50, 2000, "block"), (140003, 2, 64, 256, "block")])
def test_order(stores, n, b, m, f, strategy):
    for seed, epoch in [(0, 0), (2**64 - 1, 12345678901)]:
        got = sampled(stores(n), "-b", b, "-m", m, "-f", f, "--strategy", strategy, "--seed", seed, "--epoch", epoch)
        assert [t for t, _ in got] == list(range(-(-n // m)))
        assert [rows for _, rows in got] == batches(n, b, m, f, seed, epoch, strategy)


def test_drop_last(stores):
    got = sampled(stores(1003), "-m", 10, "-f", 3, "--drop-last")
    assert [rows for _, rows in got] == batches(1003, 16, 10, 3, 0, 0, drop_last=True)


@pytest.mark.parametrize("world", [2, 3, 5, 8])
@pytest.mark.parametrize("n, m, f", [(1003, 10, 3), (1000, 50, 4), (1003, 10, 50)])
def test_ranks(stores, n, m, f, world):
    total = -(-n // m)
    every = batches(n, 16, m, f, 7, 3)
    counts = np.zeros(total, int)
    for rank in range(world):
        got = sampled(stores(n), "-m", m, "-f", f, "--seed", 7, "--epoch", 3, "--rank", rank, "--world", world)
        assert [t for t, _ in got] == dealt(total, f, rank, world, 3)
        assert all(rows == every[t] for t, rows in got)
        counts[[t for t, _ in got]] += 1
    assert counts.min() == 1 and counts.sum() == -(-total // world) * world


def test_labels(stores):
    with_labels = ok("sample", stores(1003), "--label", "plate").out.splitlines()
    for (number, rows), line in zip(sampled(stores(1003)), with_labels, strict=True):
        codes = [r * 14 // 1003 for r in rows]
        assert line == f"{number}: {' '.join(map(str, rows))} | {' '.join(map(str, codes))}"


def test_entropy(stores):
    """The block shuffle of 16 in large fetches mixes plates that come in order nearly like random sampling."""
    e = json.loads(ok("entropy", stores(70000), "--label", "plate", "--json").out)
    assert abs(e["total"] - math.log2(14)) < 0.001 and e["labels"] == 14
    assert abs(e["entropy"] - e["random"]) < 0.04 and e["lower_bound"] < e["entropy"]
    f1 = json.loads(ok("entropy", stores(70000), "--label", "plate", "-f", 1, "--json").out)
    assert abs(f1["entropy"] - 1.76) < 0.1
    assert "plate: 14 labels" in ok("entropy", stores(1003), "--label", "plate").out


def test_several_stores(stores, tmp_path):
    """Rows run on over the stores, and a code is one label in all of them."""
    labels = np.array(["new", "p3"])[np.arange(50) % 2]
    other = ad.AnnData(sp.csr_matrix(np.eye(50, 6, dtype="f4")), obs=pd.DataFrame({"plate": pd.Categorical(labels)}, index=[f"d{i}" for i in range(50)]))
    other.write_h5ad(tmp_path / "other.h5ad")
    ok("pack", tmp_path / "other.h5ad", "-o", tmp_path / "other")
    both = (stores(1003), tmp_path / "other", "--join", "outer")
    expected = batches(1053, 16, 64, 256, 0, 0)
    codes = [r * 14 // 1003 if r < 1003 else 14 if r % 2 == 1 else 3 for r in range(1053)]
    lines = ok("sample", *both, "--label", "plate").out.splitlines()
    for rows, line in zip(expected, lines, strict=True):
        assert line.split(": ")[1] == f"{' '.join(map(str, rows))} | {' '.join(str(codes[r]) for r in rows)}"
    e = json.loads(ok("entropy", *both, "--label", "plate", "--json").out)
    counts = np.bincount(codes)
    assert e["labels"] == 15 and abs(e["total"] + sum(c / 1053 * math.log2(c / 1053) for c in counts)) < 1e-9
    assert len([r for b in sampled(*both, "--where", 'plate == "new"') for r in b[1]]) == 25
    refused = run("sample", *both[:2])
    assert refused.code == 1 and "join inner" in refused.err
    assert run("sample", *both, "--generation", 1).code == 2 and run("sample", both[0], "--join", "left").code == 2
    assert json.loads(ok("bench", *both, "--seconds", 1, "--json").out)["cells_per_s"] > 0


WHERE = 'plate in ("p2", "p5", "p11")'


def chosen(n):
    return [i for i in range(n) if i * 14 // n in (2, 5, 11)]


def test_where(stores):
    """The order is that of the cells chosen, numbered through."""
    members = chosen(1003)
    expected = [[members[i] for i in rows] for rows in batches(len(members), 7, 10, 3, 4, 2)]
    args = ("-b", 7, "-m", 10, "-f", 3, "--seed", 4, "--epoch", 2)
    assert [rows for _, rows in sampled(stores(1003), *args, "--where", WHERE)] == expected
    assert sampled(stores(1003), *args, "--where", "not " + WHERE) != sampled(stores(1003), *args)
    assert sampled(stores(1003), "--where", 'plate == "p2" and plate == "p3"') == []
    e = json.loads(ok("entropy", stores(70000), "--label", "plate", "--where", WHERE, "--json").out)
    assert e["labels"] == 3 and abs(e["total"] - math.log2(3)) < 0.001 and abs(e["entropy"] - e["random"]) < 0.04
    assert "3 labels, 1.585 bits over all chosen cells" in ok("entropy", stores(70000), "--label", "plate", "--where", WHERE).out
    assert json.loads(ok("bench", stores(1003), "--seconds", 1, "--json", "--where", WHERE).out)["cells_per_s"] > 0


def test_bench(stores):
    keys = ["cells_per_s", "memcpy_cells_per_s", "ratio", "bytes_per_cell", "first_batch_s", "peak_anon_bytes"]
    for more in ([], ["--cold"], ["--access", "pread", "--threads", 2, "--genes", "sorted"], ["-b", 1, "--genes", "stored"]):
        b = json.loads(ok("bench", stores(1003), "--seconds", 1, "--json", *more).out)
        assert list(b) == keys and all(b[k] > 0 for k in keys)
        assert abs(b["ratio"] - b["cells_per_s"] / b["memcpy_cells_per_s"]) < 0.9 * b["ratio"]
    assert "cells/s" in ok("bench", stores(1003), "--seconds", 1).out


@pytest.mark.parametrize("command, args", [("sample", ["-b", "0"]), ("sample", ["--rank", "2"]), ("sample", ["--strategy", "x"]), ("entropy", []),
                                           ("bench", ["--access", "x"]), ("bench", ["--genes", "x"])])
def test_wrong_usage(stores, command, args):
    assert run(command, stores(1003), *args).code == 2


def test_refused(stores):
    for command, *args in (["sample", "--label", "none"], ["entropy", "--label", "none"], ["bench", "--matrix", "none"],
                           ["sample", "--where", "none == 1"], ["entropy", "--label", "plate", "--where", "none == 1"],
                           ["bench", "--where", "none == 1"]):
        r = run(command, stores(1003), *args)
        assert r.code == 1 and "none" in r.err and r.out == ""
