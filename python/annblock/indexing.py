"""What users write in brackets, as row or gene numbers."""

import numpy as np

from . import errors

SIXTY_FOUR = frozenset((np.dtype(np.int64), np.dtype(np.uint64)))


def numbers(key, n):
    """`key` itself as uint64 where it is a contiguous array of 64-bit numbers from 0 to n - 1, the usual case in loops; else None."""
    if type(key) is not np.ndarray or key.dtype not in SIXTY_FOUR or key.ndim != 1 or not key.size or not key.flags.c_contiguous:
        return None
    rows = key.view(np.uint64)
    return rows if np.maximum.reduce(rows) < n else None  # negative ones are large


def resolve(key, n, names, what):
    """The positions (uint64 array) that `key` means on an axis of `n` called `what` ("row" or "gene").

    int, slice, None, bool mask, index array (negative numbers count from the end), one name or many. `names` gives a pandas
    Index when names are used. RangeError, NotFoundError; ArgumentError for a mask of another length or a key of no such kind.
    """
    if key is None or key is Ellipsis:
        return np.arange(n, dtype=np.uint64)
    if isinstance(key, slice):
        return resolve_slice(key, n, names, what)
    if isinstance(key, (int, np.integer)) and not isinstance(key, (bool, np.bool_)):
        return in_range(np.array([key], dtype=object if abs(int(key)) >> 62 else np.int64), n, what)
    if isinstance(key, str):
        return by_name(np.array([key], object), names, what)
    return resolve_array(key, n, names, what)


def resolve_slice(key, n, names, what):
    if any(isinstance(end, str) for end in (key.start, key.stop)):
        found = names().slice_indexer(key.start, key.stop, key.step)
        return np.arange(n, dtype=np.uint64)[found]
    start, stop, step = key.indices(n)
    return np.arange(start, stop, step).astype(np.uint64)


def resolve_array(key, n, names, what):
    if hasattr(key, "to_numpy"):
        key = key.to_numpy()
    array = np.asarray(key)
    if array.ndim != 1:
        raise errors.ArgumentError(
            f"{what}s are chosen by one number, name, slice, mask or one-dimensional array, not by {array.ndim} dimensions"
            if array.ndim
            else f"{what}s are chosen by a number, name, slice, mask or array, not by {key!r}"
        )
    if array.dtype == np.bool_:
        if len(array) != n:
            raise errors.ArgumentError(f"the mask of {what}s has {len(array)} values, there are {n} {what}s")
        return np.flatnonzero(array).astype(np.uint64)
    if array.size == 0:
        return np.empty(0, np.uint64)
    if array.dtype.kind in "iu":
        return in_range(array, n, what)
    if array.dtype.kind in "UOST":
        return resolve_objects(array, n, names, what)
    raise errors.ArgumentError(f"{what}s cannot be chosen by {array.dtype} values")


def resolve_objects(array, n, names, what):
    listed = array.tolist()
    if all(isinstance(k, str) for k in listed):
        return by_name(np.array(listed, object), names, what)
    if all(isinstance(k, (bool, np.bool_)) for k in listed):
        return resolve_array(np.array(listed, bool), n, names, what)
    if all(isinstance(k, (int, np.integer)) and not isinstance(k, bool) for k in listed):
        return in_range(array, n, what)
    raise errors.ArgumentError(f"{what}s cannot be chosen by a mixture of types")


def in_range(array, n, what):
    outside = array >= n
    if array.dtype.kind != "u":
        outside = outside | (array < -n)
    outside = np.asarray(outside, bool)
    if outside.any():
        bad = int(array[int(np.argmax(outside))])
        raise errors.RangeError(
            f"{what} {bad} is out of range: there are {n} {what}s", row=bad if what == "row" and 0 <= bad < 1 << 62 else None
        )
    if array.dtype.kind == "u":
        return array.astype(np.uint64, copy=False)
    array = array.astype(np.int64, copy=False)
    return np.where(array < 0, array + n, array).astype(np.uint64) if (array < 0).any() else array.astype(np.uint64)


def by_name(wanted, names, what):
    index = names()
    if not index.is_unique:
        twice = set(index[index.duplicated()]).intersection(wanted)
        if twice:
            raise errors.ArgumentError(f"{what} name {sorted(twice)[0]!r} is there more than once; choose by number")
        found = index.get_indexer_for(wanted)
    else:
        found = index.get_indexer(wanted)
    if (found < 0).any():
        lost = wanted[found < 0]
        more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
        raise errors.NotFoundError(f"there is no {what} called {lost[0]!r}{more}{errors.near(lost[0], index)}")
    return found.astype(np.uint64)


def ascending(columns):
    return len(columns) < 2 or bool((columns[1:] > columns[:-1]).all())
