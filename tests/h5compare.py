#!/usr/bin/env python3
"""Compare two HDF5 files object by object, through h5py alone: h5compare.py A.h5ad B.h5ad

Compared: the tree of links (kind, target, creation order where it is tracked), which hard links share an object, object kinds,
types, shapes, every value bit by bit, attributes. Not compared: storage layout, filters, times, unlimited dimensions.
Prints a line per difference and exits with 1 when there is one.
"""
import sys

import h5py
import numpy as np
from h5py import h5a, h5d, h5g, h5l, h5o, h5p, h5r, h5s, h5t

BLOCK = 1 << 25  # bytes read at once


def differences(a, b):
    """List of "PATH: what" for two file names."""
    with h5py.File(a, "r", locking=False) as fa, h5py.File(b, "r", locking=False) as fb:
        return Comparison(fa, fb).run()


def has_pointers(t):
    """Do values of this type refer to something outside of themselves?"""
    kind = t.get_class()
    if kind == h5t.STRING:
        return t.is_variable_str()
    if kind in (h5t.VLEN, h5t.REFERENCE):
        return True
    return any(has_pointers(part) for part in parts(t))


def parts(t):
    """The types inside of a type."""
    kind = t.get_class()
    if kind == h5t.COMPOUND:
        return [t.get_member_type(i) for i in range(t.get_nmembers())]
    return [t.get_super()] if kind in (h5t.ARRAY, h5t.VLEN) else []


def same_type(a, b):
    """H5Tequal, which does not look at the character set of variable-length strings."""
    if not a.equal(b):
        return False
    if a.get_class() == h5t.STRING and (a.get_cset(), a.get_strpad()) != (b.get_cset(), b.get_strpad()):
        return False
    return all(same_type(x, y) for x, y in zip(parts(a), parts(b)))


def creation_order(group):
    """Names in the order of their creation, None where that is not tracked."""
    if not group.get_create_plist().get_link_creation_order() & h5p.CRT_ORDER_TRACKED:
        return None
    return sorted(list_links(group), key=lambda name: group.links.get_info(name).corder)


def list_links(group):
    names = []
    group.links.iterate(names.append)
    return names


def show(path):
    return path.decode("utf-8", "backslashreplace")


def identity(item):
    info = h5o.get_info(item)
    return info.fileno, info.addr


class Comparison:
    def __init__(self, fa, fb):
        self.files = fa, fb
        self.found = []
        self.first = {}, {}  # object -> path of the first visit, per file
        self.references = []  # (path, object in a, object in b), looked up when all objects have been visited

    def say(self, path, text):
        self.found.append(f"{show(path)}: {text}")

    def run(self):
        stack = [(b"/", h5o.open(self.files[0].id, b"/"), h5o.open(self.files[1].id, b"/"))]
        while stack:
            path, a, b = stack.pop()
            if self.visited(path, a, b):
                continue
            if type(a) is not type(b):
                self.say(path, f"{type(a).__name__} and {type(b).__name__}")
                continue
            self.attributes(path, a, b)
            if isinstance(a, h5d.DatasetID):
                self.dataset(path, a, b)
            elif isinstance(a, h5g.GroupID):
                stack.extend(reversed(list(self.group(path, a, b))))
            elif not same_type(a, b):
                self.say(path, "committed types differ")
        for path, a, b in self.references:
            if self.first[0].get(a) != self.first[1].get(b):
                self.say(path, "references point to different objects")
        return self.found

    def visited(self, path, a, b):
        """Seen before under another name? Then both sides must have been, under the same one."""
        seen = []
        for first, item in zip(self.first, (a, b)):
            key = identity(item)
            seen.append(first.get(key))
            first.setdefault(key, path)
        if seen[0] != seen[1]:
            self.say(path, f"shares an object with {seen[0] and show(seen[0])} and {seen[1] and show(seen[1])}")
        return seen[0] is not None or seen[1] is not None

    def group(self, path, a, b):
        names_a, names_b = set(list_links(a)), set(list_links(b))
        for name in sorted(names_a ^ names_b):
            self.say(path + (b"" if path == b"/" else b"/") + name, "only in the " + ("first" if name in names_a else "second"))
        order_a, order_b = creation_order(a), creation_order(b)
        if (order_a is None) != (order_b is None):
            self.say(path, "creation order is tracked in one only")
        elif order_a is not None and names_a == names_b and order_a != order_b:
            self.say(path, "creation order differs")
        for name in sorted(names_a & names_b):
            child = path + (b"" if path == b"/" else b"/") + name
            kind_a, kind_b = a.links.get_info(name).type, b.links.get_info(name).type
            if kind_a != kind_b:
                self.say(child, f"link kinds {kind_a} and {kind_b}")
            elif kind_a != h5l.TYPE_HARD:
                if a.links.get_val(name) != b.links.get_val(name):
                    self.say(child, f"link targets {a.links.get_val(name)} and {b.links.get_val(name)}")
            else:
                yield child, h5o.open(a, name), h5o.open(b, name)

    # ---- values ----

    def same_shape(self, path, a, b):
        """Types and extents equal? Returns (type, dims or None for a null space), or None after a difference."""
        ta, tb, sa, sb = a.get_type(), b.get_type(), a.get_space(), b.get_space()
        if not same_type(ta, tb) or ta.committed() != tb.committed():
            self.say(path, f"types {ta.dtype if ta.get_class() != h5t.NO_CLASS else '?'} and {tb.dtype} differ")
            return None
        if sa.get_simple_extent_type() != sb.get_simple_extent_type() or (
            sa.get_simple_extent_type() == h5s.SIMPLE and sa.get_simple_extent_dims() != sb.get_simple_extent_dims()
        ):
            self.say(path, "shapes differ")
            return None
        return ta, None if sa.get_simple_extent_type() == h5s.NULL else sa.get_simple_extent_dims()

    def attributes(self, path, a, b):
        names = [set(), set()]
        for item, into in zip((a, b), names):
            h5a.iterate(item, lambda name, *_: into.add(name))
        for name in sorted(names[0] ^ names[1]):
            self.say(path, f"attribute {show(name)} only in the " + ("first" if name in names[0] else "second"))
        for name in sorted(names[0] & names[1]):
            pair = h5a.open(a, name), h5a.open(b, name)
            label = path + b"@" + name
            shape = self.same_shape(label, *pair)
            if shape and shape[1] is not None:
                self.values(label, shape[0], [lambda t=x: read_attribute(t) for x in pair], [lambda t=x: read_attribute_objects(t) for x in pair])

    def dataset(self, path, a, b):
        shape = self.same_shape(path, a, b)
        if not shape or shape[1] is None:
            return
        if not shape[1]:
            self.values(path, shape[0], [lambda d=d: read_raw(d, shape[0], None) for d in (a, b)], [lambda d=d: h5py.Dataset(d)[()] for d in (a, b)])
            return
        if 0 in shape[1]:
            return
        row = int(np.prod(shape[1][1:], dtype="i8")) * shape[0].get_size()
        step = max(1, BLOCK // max(row, 1))
        for start in range(0, shape[1][0], step):
            part = slice(start, min(start + step, shape[1][0]))
            raw = [lambda d=d: read_raw(d, shape[0], part) for d in (a, b)]
            objects = [lambda d=d: h5py.Dataset(d)[part] for d in (a, b)]
            if not self.values(path, shape[0], raw, objects):
                return

    def values(self, path, t, raw, objects):
        if has_pointers(t):
            same = self.same_objects(path, objects[0](), objects[1]())
        else:
            same = raw[0]() == raw[1]()
        if not same:
            self.say(path, "values differ")
        return same

    def same_objects(self, path, a, b):
        if isinstance(a, h5r.Reference):
            return type(a) is type(b) and self.same_reference(path, a, b)
        if isinstance(a, (np.ndarray, np.void)):
            if type(a) is not type(b) or a.shape != b.shape or a.dtype != b.dtype:
                return False
            if a.dtype.names:
                return all(self.same_objects(path, a[n], b[n]) for n in a.dtype.names)
            if a.dtype.hasobject:
                return all(self.same_objects(path, x, y) for x, y in zip(a.ravel(), b.ravel()))
            return a.tobytes() == b.tobytes()
        if isinstance(a, np.generic):
            return a.dtype == b.dtype and a.tobytes() == b.tobytes()
        return type(a) is type(b) and a == b

    def same_reference(self, path, a, b):
        if bool(a) != bool(b):
            return False
        if not a:
            return True
        targets = [identity(h5r.dereference(ref, file.id)) for ref, file in zip((a, b), self.files)]
        self.references.append((path, *targets))
        if isinstance(a, h5r.RegionReference):
            return len({selection(h5r.get_region(ref, file.id)) for ref, file in zip((a, b), self.files)}) == 1
        return True


def selection(space):
    """What a dataspace selects, whatever way it says so."""
    kind = space.get_select_type()
    lists = {h5s.SEL_HYPERSLABS: space.get_select_hyper_blocklist, h5s.SEL_POINTS: space.get_select_elem_pointlist}
    return space.get_simple_extent_dims(), kind, lists[kind]().tobytes() if kind in lists else b""


def read_raw(dataset, t, rows):
    """Bytes of a dataset, or of rows of it, in the file's own type."""
    space = dataset.get_space()
    dims = space.get_simple_extent_dims()
    if rows is None:
        out = np.zeros((), f"V{t.get_size()}")
        dataset.read(h5s.ALL, h5s.ALL, out, t)
        return out.tobytes()
    count = (rows.stop - rows.start,) + dims[1:]
    space.select_hyperslab((rows.start,) + (0,) * (len(dims) - 1), count)
    out = np.zeros(count, f"V{t.get_size()}")
    dataset.read(h5s.create_simple(count), space, out, t)
    return out.tobytes()


def read_attribute(attribute):
    out = np.zeros(attribute.get_space().get_simple_extent_dims(), f"V{attribute.get_type().get_size()}")
    if out.size:
        attribute.read(out, attribute.get_type())
    return out.tobytes()


def read_attribute_objects(attribute):
    out = np.zeros(attribute.get_space().get_simple_extent_dims(), attribute.dtype)
    if out.size:
        attribute.read(out)
    return out


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    lines = differences(sys.argv[1], sys.argv[2])
    print("\n".join(lines) if lines else "no differences")
    sys.exit(1 if lines else 0)
