"""Manifests and flat arrays read by SPEC.md alone, so that tests see what is on disk and not what the library makes of it."""
import struct
from pathlib import Path

import numpy as np

from support import DTYPES

NONE = 0xFFFFFFFF
SUFFIX = {1: ".anns", 2: ".annc", 3: ".h5ad", 4: ".h5"}


def sections(data):
    """{kind: (bytes, count)} of a segment, flat-arrays file or manifest."""
    footer, = struct.unpack_from("<Q", data, len(data) - 64 + 16)
    n, = struct.unpack_from("<I", data, footer + 8)
    out = {}
    for i in range(n):
        kind, _, offset, length, count = struct.unpack_from("<IIQQQ", data, footer + 16 + 64 * i)
        out[kind] = (data[offset : offset + length], count)
    return out


class Manifest:
    """The newest one of a store, as far as orders need it."""

    def __init__(self, store):
        self.store = Path(store)
        data = max((self.store / "manifests").iterdir()).read_bytes()
        self.export, = struct.unpack_from("<Q", data, 24)
        tables = sections(data)
        self.objects = [(o[:32].hex(), struct.unpack_from("<I", o, 56)[0]) for o in rows(tables[2][0], 64)]
        self.parts = [struct.unpack_from("<QQIIIIIIII", row) for row in rows(tables[4][0], 128)]
        self.part_matrices = [struct.unpack_from("<QQIIIIIIBB", row) for row in rows(tables[5][0], 64)]

    def object(self, row):
        sha, kind = self.objects[row]
        return (self.store / "objects" / (sha + SUFFIX[kind])).read_bytes()

    def segments(self):
        return [sha for sha, kind in self.objects if kind == 1]

    def gene_order(self):
        row = self.part_matrices[0][5]
        return None if row == NONE else arrays(self.object(row))["gene_order"]

    def row_order(self, part=0):
        """{"row_order": …, "row_order_inverse": …} of a part, or None."""
        row = self.parts[part][7]
        return None if row == NONE else arrays(self.object(row))

    def order_object(self):
        row = self.part_matrices[0][6]
        return None if row == NONE else arrays(self.object(row))


def rows(data, size):
    return [data[i : i + size] for i in range(0, len(data), size)]


def segment_codecs(data):
    """The mask of a segment's header."""
    return struct.unpack_from("<Q", data, 64)[0]


def record_codecs(data):
    """The codec of each record of a segment, rows without elements left out."""
    block_rows, = struct.unpack_from("<I", data, 56)
    tables = sections(data)
    n_rows, = struct.unpack_from("<Q", tables[3][0], 0)
    out, end = [], 4096
    for row in range(n_rows):
        start = (end + 4095) // 4096 * 4096 if row % block_rows == 0 else end
        end, nnz = struct.unpack_from("<QI", tables[2][0], 4096 * (row // 255) + 16 + 16 * (row % 255))
        if nnz:
            out.append(data[start])
    return out


def arrays(data):
    """{name: values} of the free arrays of a flat-arrays file."""
    tables, out = sections(data), {}
    names = tables[5][0]
    for row in rows(tables[3][0], 64):
        offset, n, width, name, length, dtype = struct.unpack_from("<QQQIIB", row)
        if length:
            out[names[name : name + length].decode()] = np.frombuffer(data, DTYPES[dtype], n * width, offset)
    return out
