"""Chunks whose entry in the file's list is damaged, or that hold fewer or more bytes than they must: HDF5 takes both for values."""
import shutil
import struct
import zlib

import h5py
import numpy as np
import pytest

import made_files
from support import ok, refused, run

KEY = 8  # bytes of size and filter mask in front of a chunk's place


def make(path, **filters):
    x = made_files.counts(n=300)
    chunked = {"chunks": True, **filters}
    made_files.write(path, x, obs=[("n", np.arange(300))], **filters)
    with h5py.File(path, "r+") as f:
        for name in ("obs/n", "obs/_index"):
            values, attributes, kind = f[name][:], dict(f[name].attrs), f[name].dtype
            del f[name]
            f.create_dataset(name, data=values, dtype=kind, **{**chunked, "chunks": (80,)}).attrs.update(attributes)
        made_files.encode(f.create_dataset("obsm/p", data=np.arange(900.0).reshape(300, 3), **{**chunked, "chunks": (80, 2)}), "array", "0.2.0")
    return path


def entries(path, name):
    """Offsets in the file of the keys of a dataset's chunks (B-tree of version 1)."""
    data = path.read_bytes()
    with h5py.File(path) as f:
        rank = len(f[name].shape)
        chunks = {(c.chunk_offset, c.byte_offset): c.size for c in map(f[name].id.get_chunk_info, range(f[name].id.get_num_chunks()))}
    found = []
    for (place, address), stored in chunks.items():
        key = struct.pack(f"<II{rank + 1}Q", stored, 0, *place, 0) + struct.pack("<Q", address)
        assert data.count(key) == 1
        found.append(data.index(key))
    assert len(found) > 1
    return found


@pytest.mark.parametrize("matrix", ["X", "all"])
@pytest.mark.parametrize("name", ["X/data", "X/indices", "obs/n", "obs/_index", "obsm/p"])
def test_misplaced(name, matrix, tmp_path):
    """A chunk that is not found where it is looked for must not read as zeros. HDF5 finds those that are off by less than a chunk."""
    source, right, store, out = (tmp_path / n for n in ("a.h5ad", "right.h5ad", "s", "out.h5ad"))
    whole = make(source, compression="gzip").read_bytes()
    right.write_bytes(whole)
    at = entries(source, name)
    place = struct.unpack_from("<Q", whole, at[-1] + KEY)[0]
    codes = []
    for key, value in ((at[-1], place), (at[-1], place + 1), (at[-1], 1 << 20), (at[0], place)):
        data = bytearray(whole)
        struct.pack_into("<Q", data, key + KEY, value)
        source.write_bytes(data)
        packed = run("pack", source, "-o", store, "--matrix", matrix)
        codes.append(packed.code)
        if packed.code:
            assert f"/{name}" in refused(packed, "a.h5ad")
            assert not store.exists()
            continue
        ok("export", store, "-o", out, "--force")
        ok("convert-check", right, out)
        shutil.rmtree(store)
    assert codes[0] == 0 and codes[2] == 1, codes


@pytest.mark.parametrize("filters", [{}, {"compression": "gzip"}, {"compression": "lzf"}])
def test_never_written(filters, tmp_path):
    """Chunks that are not there at all are fill values still."""
    source = make(tmp_path / "a.h5ad", **filters)
    with h5py.File(source, "r+") as f:
        d = f.create_dataset("layers/thin", (300, 40), "f4", chunks=(20, 20), **filters)
        made_files.encode(d, "array", "0.2.0")[45, 7] = 3
        made_files.encode(f.create_dataset("layers/wide", (300, 40), "f4", chunks=(50, 40), **filters), "array", "0.2.0")
    ok("pack", source, "-o", tmp_path / "s", "--matrix", "all")
    ok("export", tmp_path / "s", "-o", tmp_path / "out.h5ad")
    ok("convert-check", source, tmp_path / "out.h5ad")


@pytest.mark.parametrize("bytes_of", [lambda n: n - 4, lambda n: n + 4, lambda n: 0], ids=["fewer", "more", "none"])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("name", ["data", "indices"])
def test_another_size(name, order, bytes_of, tmp_path):
    """Both where annblock inflates and where HDF5 does, for values of the other byte order and beside chunks that are missing."""
    x, kind = made_files.counts(n=300), {"data": "f4", "indices": "i4"}[name]
    source = made_files.write(tmp_path / "a.h5ad", x, index=order + "i4", data_type=order + "f4", compression="gzip")
    with h5py.File(source, "r+") as f:
        d = f["X"][name]
        height, = d.chunks
        assert d.dtype == np.dtype(order + kind) and d.id.get_num_chunks() == 2
        d.id.write_direct_chunk((height,), zlib.compress(bytes(bytes_of(4 * height))))
    message = refused(run("pack", source, "-o", tmp_path / "s"), "a.h5ad")
    assert f"/X/{name}" in message and "chunk" in message and str(height) in message, message
    assert not (tmp_path / "s").exists()
