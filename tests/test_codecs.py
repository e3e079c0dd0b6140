"""Whole files with one record codec forced, X alone and all matrices: each must round-trip whatever the file holds, since pack would choose
among them by size."""
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import made_files
from h5compare import differences
from store_format import Manifest, record_codecs, segment_codecs
from support import LONG, SANITIZED, TOOLS, environment, ok, real_files, run
from test_roundtrip import BESIDE, NOT_YET, SLOW, matrices

CODECS = {"plain": 1, "lz4": 2, "count": 3, "dict": 4}
PLAIN = CODECS["plain"]
SMALL = 1 << (16 if SANITIZED else 18)  # bytes; larger files only when there is time


def pack(source, store, codec, matrices):
    env = environment(ASAN_OPTIONS="detect_leaks=0") if SANITIZED and "blosc" in source.name else environment()
    args = [TOOLS / "pack_codec", source, store, str(1 << CODECS[codec]), *matrices]
    return subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, env=env)


def codecs_of(store):
    """{codec: records}, of all segments; a segment must name the codecs that it may hold."""
    manifest, used = Manifest(store), Counter()
    for row, (_, kind) in enumerate(manifest.objects):
        if kind == 1:
            data = manifest.object(row)
            found = Counter(record_codecs(data))
            assert not sum(1 << c for c in found) & ~segment_codecs(data)
            used += found
    return used


def check_back(source, store, out):
    """Export and compare, in C where Python would be slow."""
    ok("export", store, "-o", out)
    if source.stat().st_size > 1 << 18:
        assert ok("convert-check", source, out).out.startswith("ok")
    else:
        found = differences(source, out)
        assert not found, "\n".join(found[:20])


def round_trip(source, tmp_path, codec, matrices=()):
    store = tmp_path / "s.annblock"
    result = pack(source, store, codec, matrices)
    assert result.returncode == 0, f"{result.returncode}: {result.stderr}"
    assert ok("verify", store).out.startswith("ok: ")
    check_back(source, store, tmp_path / "out.h5ad")
    used = codecs_of(store)
    assert set(used) <= {PLAIN, CODECS[codec]}, used
    return used


# ---- files ----


def files():
    found = [p for p in real_files("accept") if p.name not in SLOW]
    return [pytest.param(p, id=p.name) for p in found] or [pytest.param(None, marks=pytest.mark.skip(reason="H5AD_DIR is not set"))]


def beside(source, work):
    """A copy with the file that has its values, where there is one."""
    if source.name not in BESIDE:
        return source
    name, values = BESIDE[source.name]
    (work / name).write_bytes(values)
    return Path(shutil.copy(source, work / source.name))


@pytest.mark.parametrize("packed", [(), ("all",)], ids=["default", "all"])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("source", files())
def test_file(source, codec, packed, tmp_path, monkeypatch):
    if source.stat().st_size > SMALL and not LONG:
        pytest.skip("a larger file: make check-long packs it")
    if source.name in NOT_YET:
        pytest.skip("refused, see not_yet.txt")
    more = set(matrices(source)) - {"X"}
    if packed and not more:
        pytest.skip("it has no matrix but X")
    if not packed and more and not LONG:
        pytest.skip("packed with all its matrices: make check-long packs X alone too")
    source = beside(source, tmp_path)
    monkeypatch.chdir(tmp_path)
    round_trip(source, tmp_path, codec, packed)


# ---- is the codec used where it can be? ----


def few_values(n=300, m=400):
    """Fractions, of which there are few: for dict and not for count."""
    rng = np.random.default_rng(5)
    x = rng.choice(np.array([0.25, 0.5, 1.5, 3.25]), (n, m)) * (rng.random((n, m)) < 0.3)
    return made_files.sp.csr_matrix(x.astype("f4"))


def noise(n=300, m=400):
    rng = np.random.default_rng(6)
    x = made_files.sp.random(n, m, 0.3, "csr", "f4", rng)
    x.data = rng.standard_normal(x.nnz).astype("f4")
    return x


COUNTS = made_files.counts(m=400)


@pytest.mark.parametrize(
    "codec, x",
    [("count", COUNTS), ("lz4", COUNTS), ("dict", COUNTS), ("dict", few_values()), ("lz4", few_values())],
    ids=["count-counts", "lz4-counts", "dict-counts", "dict-fractions", "lz4-fractions"],
)
def test_used(codec, x, tmp_path):
    source = made_files.write(tmp_path / "in.h5ad", x)
    used = round_trip(source, tmp_path, codec)
    assert used == {CODECS[codec]: np.count_nonzero(np.diff(x.indptr))}


@pytest.mark.parametrize(
    "codec, x",
    [("count", few_values()), ("count", noise()), ("dict", noise()), ("plain", COUNTS)],
    ids=["count-fractions", "count-noise", "dict-noise", "plain-counts"],
)
def test_falls_back(codec, x, tmp_path):
    """Rows that the codec does not take are plain."""
    source = made_files.write(tmp_path / "in.h5ad", x)
    used = round_trip(source, tmp_path, codec)
    assert used == {PLAIN: np.count_nonzero(np.diff(x.indptr))}


@pytest.mark.skipif(not real_files("accept"), reason="H5AD_DIR is not set")
@pytest.mark.parametrize("codec", CODECS)
def test_used_in_real_file(codec, tmp_path):
    """Counts of real cells."""
    source, = (p for p in real_files("accept") if p.name == "curation_valid_0.8.h5ad")
    used = round_trip(source, tmp_path, codec)
    assert used[CODECS[codec]] > 0.9 * used.total(), used
