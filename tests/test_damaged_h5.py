"""Sources damaged at random: HDF5 itself crashes and hangs on some of them. One clear error, exit status 1, nothing left behind; or a store
that is right by itself. The sources are those of the golden stores, whose bytes never change, so that every seed is the same damage everywhere."""
import os
import random
import re
import shutil
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest

import made_files
from made_files import encode, write_frame
from support import CLI, LONG, SANITIZED, environment, ok, real_files, refused, run
from test_golden import unpack

STRUCTURES = re.compile(rb"TREE|SNOD|HEAP|GCOL|OHDR|OCHK|FRHP|FHDB|FHIB|BTHD|BTLF|BTIN|FADB|FAHD|EAHD|EAIB|\x89HDF")
SEEDS = range(300) if LONG else range(20)
SECONDS = 120  # of a machine that does other things too; HDF5 not coming back is noticed after 20 s of work


def damaged(data, seed):
    """Bits, bytes or ranges changed, mostly in metadata, or the file cut."""
    rng, out = random.Random(seed), bytearray(data)
    places = [m.start() for m in STRUCTURES.finditer(data)]
    kind = rng.choice(["flip", "flip", "flip", "zero", "ones", "random", "cut", "small"])
    if kind == "cut":
        return data[: rng.randrange(len(data))]
    for _ in range(rng.choice([1, 1, 2, 4])):
        start = rng.choice(places)
        at = min(len(out) - 1, start + rng.randrange(4096 if data[start : start + 4] == b"GCOL" else 300))
        if rng.random() < 0.4:
            at = rng.choice([i for i in range(0, len(out), 7) if out[i]])
        n = 1 if kind in ("flip", "small") else min(rng.choice([1, 2, 4, 8, 16, 64, 256]), len(out) - at)
        if kind == "flip":
            out[at] ^= 1 << rng.randrange(8)
        else:
            out[at : at + n] = {"zero": bytes(n), "ones": b"\xff" * n, "random": rng.randbytes(n), "small": bytes([rng.randrange(4)])}[kind]
    return bytes(out)


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    out = {}
    for name in ("orders", "codec-dict"):
        folder = tmp_path_factory.mktemp(name)
        unpack(name, folder)
        out[name] = (folder / "a.h5ad").read_bytes()
    return out


def check(data, work, *options):
    """Whatever it is, it ends well. What was packed: True."""
    work.mkdir(parents=True)
    source, store, out = work / "a.h5ad", work / "s", work / "out.h5ad"
    source.write_bytes(data)
    packed = run("pack", source, "-o", store, *options, timeout=SECONDS)
    if packed.code:
        refused(packed, "a.h5ad")
        assert os.listdir(work) == ["a.h5ad"]
        return False
    assert ok("verify", store).out.startswith("ok: ")
    exported = run("export", store, "-o", out, timeout=SECONDS)
    if exported.code:
        assert len(exported.err.splitlines()) == 1, str(exported)
        assert sorted(os.listdir(work)) == ["a.h5ad", "s"]
        return True
    compared = run("convert-check", source, out, timeout=SECONDS)
    # HDF5 may still fail on the damaged file, but not find other values
    assert compared.code == 0 or (compared.out == "" and len(compared.err.splitlines()) == 1), str(compared)
    return True


@pytest.mark.parametrize("first", range(0, len(SEEDS), 5))
@pytest.mark.parametrize("name", ["orders", "codec-dict"])
def test_random_damage(name, first, sources, tmp_path):
    for seed in SEEDS[first : first + 5]:
        options = ["--matrix", "all"] if seed % 2 else []
        check(damaged(sources[name], f"{name} {seed}"), tmp_path / str(seed), *options)
        shutil.rmtree(tmp_path / str(seed))


@pytest.mark.skipif(not LONG, reason="minutes: set ANNB_TEST_LONG")
@pytest.mark.parametrize("source", [p for p in real_files("accept") if p.suffix == ".h5ad" and p.stat().st_size < 1 << 17], ids=lambda p: p.name)
def test_random_damage_of_real_files(source, tmp_path):
    for seed in range(20):
        check(damaged(source.read_bytes(), f"{source.name} {seed}"), tmp_path / str(seed))
        shutil.rmtree(tmp_path / str(seed))


# ---- what is known to hurt ----


def heaps(data):
    return [m.start() for m in re.finditer(rb"GCOL\x01\0\0\0", data)]


@pytest.mark.parametrize("at, value", [(24, bytes(8)), (24, b"\xff" * 8), (8, bytes(8)), (8, b"\xff" * 8), (16, bytes(16))])
def test_heap_without_end(at, value, sources, tmp_path):
    """HDF5 1.10 walks a collection for ever when an object of number 0 has no size."""
    for k, start in enumerate(heaps(sources["orders"])):
        data = bytearray(sources["orders"])
        if at == 24:
            data[start + 16 : start + 18] = bytes(2)  # the free space
        data[start + at : start + at + len(value)] = value
        assert check(bytes(data), tmp_path / str(k)) is False


def test_heap_that_is_data(tmp_path):
    """Numbers that look like the start of a heap are numbers."""
    source = made_files.write(tmp_path / "a.h5ad", made_files.counts())
    fake = b"GCOL\x01\0\0\0" + b"\xff" * (4096 - 8)
    with h5py.File(source, "r+") as f:
        f["uns/image"] = bytearray(fake * 3)
        f["uns"].create_dataset("chunks", data=list(fake * 2), dtype="u1", chunks=(5000,))
    ok("pack", source, "-o", tmp_path / "s")
    ok("export", tmp_path / "s", "-o", tmp_path / "out.h5ad")
    ok("convert-check", source, tmp_path / "out.h5ad")


# ---- sidecars: found by their checksum, before HDF5 sees them ----


def test_damaged_sidecar(sources, tmp_path):
    (tmp_path / "a.h5ad").write_bytes(sources["orders"])
    ok("pack", tmp_path / "a.h5ad", "-o", tmp_path / "s")
    for pattern in ("*.h5ad", "*.h5"):
        path, = (tmp_path / "s/objects").glob(pattern)
        whole = path.read_bytes()
        path.chmod(0o644)
        for seed in range(300 if LONG else 12):
            path.write_bytes(damaged(whole, f"sidecar {seed}"))
            if path.read_bytes() == whole:
                continue
            message = refused(run("export", tmp_path / "s", "-o", tmp_path / "out.h5ad"), path.name)
            assert "SHA-256" in message or "bytes" in message, message
            assert not (tmp_path / "out.h5ad").exists()
        path.write_bytes(whole)


# ---- the child ----


@pytest.mark.skipif(SANITIZED, reason="a sanitizer minds")
def test_child_dies_with_its_parent(tmp_path):
    """Killing the command leaves no process at work."""
    def children(pid):
        try:
            with open(f"/proc/{pid}/task/{pid}/children") as f:
                return f.read().split()
        except OSError:
            return []

    source = made_files.write(tmp_path / "a.h5ad", made_files.counts(n=200, m=40))
    with h5py.File(source, "r+") as f:
        f.create_dataset("uns/huge", (1 << 31,), h5py.string_dtype(), chunks=(1 << 12,))[5] = "five"
    with subprocess.Popen([CLI, "pack", source, "-o", tmp_path / "s"], stderr=subprocess.DEVNULL, env=environment()) as p:
        limit = time.monotonic() + 60
        while not (list((tmp_path / "s").glob("tmp/*-3"))) and time.monotonic() < limit:
            time.sleep(0.01)
        child, = children(p.pid)
        p.send_signal(signal.SIGKILL)
        p.wait()
    limit = time.monotonic() + 30
    while os.path.exists(f"/proc/{child}/fd/0") and time.monotonic() < limit:
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{child}/fd/0")


def test_csc_without_rows_that_has_elements(tmp_path):
    source = tmp_path / "norows.h5ad"
    with h5py.File(source, "w") as f:
        encode(f, "anndata", "0.1.0")
        write_frame(f, "obs", [])
        write_frame(f, "var", ["a", "b", "c"])
        g = encode(f.create_group("X"), "csc_matrix", "0.1.0")
        g.attrs["shape"] = np.array([0, 3], "i8")
        g["data"] = np.ones(5, "f4")
        g["indices"] = np.array([0, 1, 2, 0, 1], "i4")
        g["indptr"] = np.array([0, 2, 4, 5], "i8")
    message = refused(run("pack", source, "-o", tmp_path / "s"), "norows.h5ad")
    assert "crashed" not in message and "X" in message
    assert sorted(p.name for p in tmp_path.iterdir()) == ["norows.h5ad"]
