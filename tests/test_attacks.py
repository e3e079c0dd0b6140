"""Inputs and outputs made to hurt: aliases, links, pipes, sizes that are only stated. Refused clearly, or kept exactly; nothing is lost and
nothing waits for ever."""
import os
import resource
import signal
import socket
import subprocess
import time

import h5py
import numpy as np
import pytest

import made_files
from h5compare import differences
from support import CLI, EXAMPLE, environment, ok, refused, run


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "example.annblock"
    ok("pack", EXAMPLE, "-o", path)
    return path


def made(path, change, **options):
    with h5py.File(made_files.write(path, made_files.counts(**options)), "r+") as f:
        change(f)
    return path


def round_trip(source, work):
    ok("pack", source, "-o", work / "s")
    assert ok("verify", work / "s").out.startswith("ok: ")
    ok("export", work / "s", "-o", work / "out.h5ad")
    assert differences(source, work / "out.h5ad") == []
    ok("convert-check", source, work / "out.h5ad")


# ---- one dataset under several names ----


def square(path, form):
    """4 x 4 with one element a row, so that data, indices and indptr could be the same array but for the length of indptr."""
    x = made_files.counts(n=4, m=4, density=0, form=form)
    with h5py.File(made_files.write(path, x), "r+") as f:
        for name in ("data", "indices", "indptr"):
            del f["X"][name]
        f["X/indptr"] = np.array([0, 1, 2, 3, 4], "i4")
        f["X/indices"] = np.array([0, 1, 2, 3, 0], "i4")  # one element past the last pointer
        f["X/data"] = np.array([5, 6, 7, 8, 0], "i4")
    return path


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("names", [("data", "indices"), ("indices", "indptr"), ("indptr", "data"), ("data", "indices", "indptr")])
def test_parts_of_the_matrix_are_one_dataset(names, form, tmp_path):
    source = square(tmp_path / "a.h5ad", form)
    with h5py.File(source, "r+") as f:
        if "indptr" in names:
            f["X/indptr"][...] = [0, 1, 2, 3, 3]
        for name in names[:-1]:
            del f["X"][name]
            f["X"][name] = f["X"][names[-1]]
    message = refused(run("pack", source, "-o", tmp_path / "s"), "a.h5ad")
    assert "is the same dataset as" in message and os.listdir(tmp_path) == ["a.h5ad"]


@pytest.mark.parametrize("form", ["csr", "csc", "dense"])
@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
def test_part_of_the_matrix_has_another_name(part, form, tmp_path):
    """Hard links from elsewhere to what is packed."""
    target = "X" if form == "dense" else f"X/{part}"
    if form == "dense":
        source = made_files.write(tmp_path / "a.h5ad", made_files.counts().toarray())
    else:
        source = made_files.write(tmp_path / "a.h5ad", made_files.counts(form=form))
    with h5py.File(source, "r+") as f:
        f["uns/y"] = f[target]
        f["aside"] = f[target]
        f["uns/pointer"] = np.array([f[target].ref], h5py.ref_dtype)
    round_trip(source, tmp_path)


# ---- sizes that are only stated ----


HUGE = 1 << 36


def unwritten(f, name, shape, dtype, **options):
    return f.create_dataset(name, shape, dtype, **options)


@pytest.mark.parametrize("kind", ["string", "reference", "region", "ragged", "number"])
@pytest.mark.parametrize("chunks", [None, (1 << 16,)])
def test_huge_dataset_without_values(kind, chunks, tmp_path):
    dtype = {"string": h5py.string_dtype(), "reference": h5py.ref_dtype, "region": h5py.regionref_dtype, "ragged": h5py.vlen_dtype("i4"), "number": "f8"}[kind]
    source = made(tmp_path / "a.h5ad", lambda f: f.create_dataset("uns/huge", (HUGE,), dtype, chunks=chunks))
    assert source.stat().st_size < 1 << 20
    ok("pack", source, "-o", tmp_path / "s", timeout=30)
    ok("export", tmp_path / "s", "-o", tmp_path / "out.h5ad", timeout=30)
    assert (tmp_path / "out.h5ad").stat().st_size < 1 << 20
    assert differences(source, tmp_path / "out.h5ad") == []


def interrupted(args, seconds, number):
    with subprocess.Popen([CLI, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as p:
        time.sleep(seconds)
        assert p.poll() is None, p.communicate()
        p.send_signal(number)
        began = time.monotonic()
        try:
            p.communicate(timeout=20)
        finally:
            p.kill()
    assert time.monotonic() - began < 20
    return p.returncode


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
@pytest.mark.parametrize("kind", ["string", "reference"])
def test_huge_dataset_with_one_value_can_be_interrupted(kind, number, tmp_path):
    def change(f):
        d = f.create_dataset("uns/huge", (HUGE,), h5py.string_dtype() if kind == "string" else h5py.ref_dtype, chunks=(1 << 12,))
        d[5] = "five" if kind == "string" else f["obs"].ref

    source = made(tmp_path / "a.h5ad", change)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    assert interrupted(["pack", source, "-o", tmp_path / "s"], 1.5, number) == -number
    assert os.listdir(tmp_path) == ["a.h5ad"]


@pytest.mark.parametrize("axis, length", [("var", (1 << 31) - 1), ("obs", 1 << 40), ("obs", 1 << 27)])
@pytest.mark.parametrize("dtype", [h5py.string_dtype(), "S8", "i8"])
def test_huge_index_without_names(axis, length, dtype, tmp_path):
    def change(f):
        del f[axis]["_index"]
        f[axis].create_dataset("_index", (length,), dtype, chunks=(1 << 10,))

    message = refused(run("pack", made(tmp_path / "a.h5ad", change), "-o", tmp_path / "s", timeout=30), "a.h5ad")
    assert f"{axis}: states {length} rows" in message
