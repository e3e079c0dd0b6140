"""Inputs and outputs made to hurt: aliases, links, pipes, sizes that are only stated. Refused clearly, or kept exactly; nothing is lost and
nothing waits for ever."""
import os
import resource
import signal
import socket
import struct
import subprocess
import time

import h5py
import numpy as np
import pytest

import made_files
from h5compare import differences
from support import CLI, EXAMPLE, environment, heed_signals, ok, refused, run


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
    with subprocess.Popen([CLI, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), preexec_fn=heed_signals) as p:
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
        d = f.create_dataset("uns/huge", (1 << 31,), h5py.string_dtype() if kind == "string" else h5py.ref_dtype, chunks=(1 << 12,))
        d[5] = "five" if kind == "string" else f["obs"].ref

    source = made(tmp_path / "a.h5ad", change)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    assert interrupted(["pack", source, "-o", tmp_path / "s"], 1.5, number) == -number
    assert os.listdir(tmp_path) == ["a.h5ad"]


@pytest.mark.parametrize("chunked", [False, True])
def test_copy_of_much_raw_data_can_be_interrupted(chunked, tmp_path):
    """8 GiB that were set aside and never filled, or chunks of zeros."""
    def change(f):
        if chunked:
            f.create_dataset("layers/much", (1 << 20, 1 << 10), "f4", chunks=(1 << 10, 1 << 10))
            chunk = bytes(4 << 20)
            for i in range(64):
                f["layers/much"].id.write_direct_chunk((i << 10, 0), chunk)
            return
        p = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        p.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        p.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        h5py.h5d.create(f["layers"].id, b"much", h5py.h5t.IEEE_F64LE, h5py.h5s.create_simple((1 << 30,)), p)

    source = made(tmp_path / "a.h5ad", change)
    store = tmp_path / "s"

    def copied():
        return max((p.stat().st_size for p in store.glob("tmp/**/*") if p.is_file()), default=0)

    with subprocess.Popen([CLI, "pack", source, "-o", store], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), preexec_fn=heed_signals) as p:
        limit = time.monotonic() + 30
        while p.poll() is None and copied() < 8 << 20 and time.monotonic() < limit:
            time.sleep(0.001)
        p.send_signal(signal.SIGTERM)
        began = time.monotonic()
        _, err = p.communicate(timeout=30)
    if p.returncode == 0 and chunked:
        pytest.skip("it was done before it could be interrupted")
    assert p.returncode == -signal.SIGTERM and b"interrupted" in err, err
    assert time.monotonic() - began < 2 and os.listdir(tmp_path) == ["a.h5ad"]


@pytest.mark.parametrize("axis, length", [("var", (1 << 31) - 1), ("obs", 1 << 40), ("obs", 1 << 27)])
@pytest.mark.parametrize("dtype", [h5py.string_dtype(), "S8", "i8"])
def test_huge_index_without_names(axis, length, dtype, tmp_path):
    def change(f):
        del f[axis]["_index"]
        f[axis].create_dataset("_index", (length,), dtype, chunks=(1 << 10,))

    message = refused(run("pack", made(tmp_path / "a.h5ad", change), "-o", tmp_path / "s", timeout=30), "a.h5ad")
    assert f"{axis}: states {length} rows" in message


# ---- links and what is no file, as outputs ----


@pytest.mark.parametrize("relative", [True, False])
def test_export_through_a_link(relative, store, tmp_path):
    """The link stays, and its file is replaced."""
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there/real.h5ad", tmp_path / "link.h5ad"
    target.write_text("old")
    link.symlink_to("there/real.h5ad" if relative else target)
    refused(run("export", store, "-o", link), "link.h5ad")
    assert target.read_text() == "old"
    ok("export", store, "-o", link, "--force")
    assert link.is_symlink() and differences(EXAMPLE, target) == []
    assert sorted(os.listdir(tmp_path)) == ["link.h5ad", "there"] and os.listdir(tmp_path / "there") == ["real.h5ad"]


def other_kinds(folder):
    """Names of things that are no regular file."""
    (folder / "folder").mkdir()
    (folder / "to_folder").symlink_to("folder")
    (folder / "nowhere").symlink_to("not/there")
    (folder / "round").symlink_to("round")
    os.mkfifo(folder / "pipe")
    (folder / "to_pipe").symlink_to("pipe")
    (folder / "to_null").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(folder / "socket"))
    return ["folder", "to_folder", "nowhere", "round", "pipe", "to_pipe", "to_null", "socket"]


def kinds(folder):
    return {p.name: (os.lstat(p).st_mode, os.lstat(p).st_ino) for p in folder.iterdir()}


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_output_is_no_file(force, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    names = other_kinds(tmp_path)
    before = kinds(tmp_path)
    for name in names + ["/dev/null"]:
        refused(run("export", store, "-o", name, *force, timeout=20), name)
        assert kinds(tmp_path) == before and os.listdir("folder") == []
    for name in set(names + ["/dev/null"]) - {"folder", "to_folder"}:
        refused(run("pack", EXAMPLE, "-o", name, *force, timeout=20), name)
        assert kinds(tmp_path) == before
    assert not os.path.isfile("/dev/null")


def test_pack_through_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    ok("pack", EXAMPLE, "-o", tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and ok("verify", tmp_path / "real").out.startswith("ok: ")


# ---- what is no file, as input ----


def test_input_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in other_kinds(tmp_path) + ["/dev/null", "/dev/zero"]:
        for args in (["pack", name, "-o", "s"], ["convert-check", name, EXAMPLE], ["convert-check", EXAMPLE, name]):
            message = refused(run(*args, timeout=20), name)
            assert name in ("nowhere", "round") or "is not a regular file" in message or "is a directory" in message, message
    assert not os.path.exists("s")


# ---- limits and signals ----


@pytest.mark.parametrize("command", ["pack", "export"])
def test_limit_on_file_sizes(command, store, tmp_path):
    args = ["pack", EXAMPLE, "-o", tmp_path / "s"] if command == "pack" else ["export", store, "-o", tmp_path / "out.h5ad"]
    for size in (0, 1000, 50_000, 300_000):
        limit = lambda n=size: resource.setrlimit(resource.RLIMIT_FSIZE, (n, resource.RLIM_INFINITY))
        assert "File too large" in refused(run(*args, preexec_fn=limit), str(tmp_path))
        assert os.listdir(tmp_path) == []


# ---- messages ----


@pytest.mark.parametrize("name", ["X", "obs", "var"])
def test_external_link_that_leads_nowhere(name, tmp_path):
    source = made(tmp_path / "a.h5ad", lambda f: (f.__delitem__(name), f.__setitem__(name, h5py.ExternalLink("away.h5ad", "/there"))))
    message = refused(run("pack", source, "-o", tmp_path / "s"), "a.h5ad")
    assert "another file, away.h5ad, which cannot be read" in message


def test_numbers_in_messages(tmp_path):
    def says(change, *expected):
        path = tmp_path / "a.h5ad"
        message = refused(run("pack", made(path, change), "-o", tmp_path / "s"), "a.h5ad")
        assert all(text in message for text in expected), message

    def code(f, value, kind):
        codes = np.zeros(300, kind)
        codes[7] = value
        made_files.write_categorical(f["obs"], "kind", codes, ["a"])
        f["obs"].attrs["column-order"] = np.array(["kind"], object)

    def index(f, value):
        indices = f["X/indices"][()].astype("u8")
        indices[3] = value
        del f["X/indices"]
        f["X/indices"] = indices

    def pointer(f, value):
        pointers = f["X/indptr"][()].astype("u8")
        pointers[-1] = value
        del f["X/indptr"]
        f["X/indptr"] = pointers

    says(lambda f: f["X"].attrs.modify("shape", np.array([-300, 40], "i8")), "-300 × 40", "negative")
    says(lambda f: code(f, (1 << 63) + 5, "u8"), "row 7", "code 9223372036854775813")
    says(lambda f: code(f, -7, "i2"), "row 7", "code -7")
    says(lambda f: index(f, (1 << 63) + 5), "9223372036854775813")
    says(lambda f: pointer(f, (1 << 63) + 5), "9223372036854775813")


# ---- what this HDF5 cannot read is told as that ----


@pytest.mark.skipif(h5py.version.hdf5_version_tuple < (2, 0, 0), reason="only HDF5 2.0 writes its newest format")
@pytest.mark.parametrize("name", ["X", "X/data"])
def test_matrix_of_a_newer_hdf5(name, tmp_path):
    """The object is there, under a plain name; it only cannot be opened."""
    x = made_files.counts()
    source = made_files.write(tmp_path / "a.h5ad", x if "/" in name else x.toarray())
    with h5py.File(source, "r+", libver="latest") as f:
        values, attributes = f[name][()], dict(f[name].attrs)
        del f[name]
        f.create_dataset(name, data=values, chunks=tuple(max(1, n // 3) for n in values.shape), compression="gzip").attrs.update(attributes)
    message = refused(run("pack", source, "-o", tmp_path / "s"), "a.h5ad")
    assert "newer HDF5" in message and "link" not in message


@pytest.mark.parametrize("place, name", [("obs", "_index"), ("X", "encoding-type"), ("obs/kind", "encoding-type")])
def test_attribute_whose_text_is_lost(place, name, tmp_path):
    """It is not taken for one that is missing, in whose place there are defaults."""
    source = made_files.write(tmp_path / "a.h5ad", made_files.counts())
    with h5py.File(source, "r+") as f:
        f.copy("obs/_index", "obs/names")
        f["obs"].attrs["_index"] = "names"
        codes = f.create_group("obs/kind")
        codes.attrs["encoding-type"] = "categorical"
        codes["codes"], codes["categories"] = np.zeros(f["X"].attrs["shape"][0], "i1"), ["a"]
        f["obs"].attrs["column-order"] = np.array(["kind"], h5py.string_dtype())
        del f[place].attrs[name]
        f[place].attrs[name] = "a text like no other"
    data = bytearray(source.read_bytes())
    heap, n = data.rindex(b"GCOL", 0, data.index(b"a text like no other")), 0
    while (at := data.find(struct.pack("<I", len("a text like no other")), n)) >= 0:  # length, address of the heap, number in it
        n = at + 1
        if struct.unpack_from("<Q", data, at + 4)[0] == heap:
            data[at + 4 : at + 12] = struct.pack("<Q", 1 << 40)
            break
    else:
        raise AssertionError("no such attribute")
    source.write_bytes(data)
    message = refused(run("pack", source, "-o", tmp_path / "s"), "a.h5ad")
    assert place in message and f"attribute '{name}' cannot be read" in message and os.listdir(tmp_path) == ["a.h5ad"]
