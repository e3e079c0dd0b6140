"""Columns of obs and var: views over the store's memory, as numpy and pandas have them."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from . import errors
from ._c import AXES, NUMPY, check, ffi, lib, local, text, view

if TYPE_CHECKING:
    import pandas as pd

MOST_SHOWN = 1_000_000
KINDS = {lib.ANNB_COLUMN_FIXED: "fixed", lib.ANNB_COLUMN_STRING: "string", lib.ANNB_COLUMN_CATEGORICAL: "categorical"}


class Column:
    """One column of obs or var.

    `name`; `kind` ("fixed", "string" or "categorical"); `dtype` (of values or codes; object for strings); `is_index`; `ordered`;
    `nullable` (values may be missing).
    """

    _get_info, _get_strings, _get_categories = lib.annb_column_get_info, lib.annbpy_strings, lib.annb_column_categories

    def __init__(self, handle, pointer):
        self._handle, self._pointer = handle, pointer
        info = ffi.new("annb_column_info *")
        type(self)._get_info(pointer, info)
        self.name, self.kind, self._length = text(info.name), KINDS[info.kind], int(info.length)
        self.dtype = np.dtype(object) if self.kind == "string" else NUMPY[info.dtype]
        self.is_index, self.ordered, self.nullable = bool(info.is_index), bool(info.ordered), bool(info.has_mask)

    def __len__(self) -> int:
        return self._length

    def __repr__(self):
        return f"<annblock column {self.name!r}: {len(self)} × {self.kind} {self.dtype}>"

    def _view(self):
        values, mask = ffi.new("const void **"), ffi.new("const uint8_t **")
        check(lib.annb_column_values(self._pointer, 0, self._length, values, mask, local.error), local.error)
        missing = view(mask[0], self._length, np.dtype(bool), self._handle) if mask[0] else None
        return view(values[0], self._length, self.dtype, self._handle), missing

    @property
    def values(self) -> np.ndarray:
        """Values (fixed), codes with -1 = missing (categorical), both read-only and without a copy; or an object array of str."""
        return self._strings()[0] if self.kind == "string" else self._view()[0]

    @property
    def missing(self) -> np.ndarray | None:
        """A bool array, True where the value is missing; None where none can be."""
        if self.kind == "string":
            return self._strings()[1] if self.nullable else None
        values, mask = self._view()
        return values < 0 if self.kind == "categorical" else mask

    @property
    def categories(self) -> np.ndarray:
        """The categories of a categorical column, as an array."""
        return self._categories().values

    def _categories(self):
        out = ffi.new("const annb_column **")
        check(type(self)._get_categories(self._pointer, out, local.error), local.error)
        return Column(self._handle, out[0])

    def _strings(self):
        n = self._length
        ends, missing = np.empty(n, np.int64), np.empty(n, np.bool_)
        error, ends_at = local.error, ffi.from_buffer("int64_t[]", ends)
        missing_at = ffi.from_buffer("uint8_t[]", missing)
        get = type(self)._get_strings
        check(get(self._pointer, 0, n, ends_at, ffi.NULL, 0, missing_at, error), error)
        size = int(ends[-1]) if n else 0
        data = bytearray(size)
        check(get(self._pointer, 0, n, ends_at, ffi.from_buffer(data), size, ffi.NULL, error), error)
        return cut(bytes(data), ends), missing

    def to_pandas(self, index: Any = None) -> pd.Series:
        """A pandas Series: categoricals as such, nullable types where values are missing; fixed values are not copied."""
        import pandas as pd

        return pd.Series(self.array(), index=index, name=self.name, copy=False)

    def array(self):
        """What the Series holds: a numpy array or a pandas extension array."""
        import pandas as pd

        if self.kind == "categorical":
            kind = pd.CategoricalDtype(pd.Index(self._categories().array()), ordered=self.ordered)
            return pd.Categorical.from_codes(self.values, dtype=kind, validate=False)
        values, missing = self._strings() if self.kind == "string" else self._view()
        return with_missing(values, missing if self.nullable else None)


class JointColumn(Column):
    """A column over several parts, gathered when it is read: categories are united by name, codes are int32."""

    _get_info, _get_strings, _get_categories = lib.annb_joint_column_get_info, lib.annbpy_joint_strings, lib.annb_joint_column_categories

    def _view(self):
        n, error = self._length, local.error
        values = np.empty(n, self.dtype)
        if self.kind == "categorical":
            check(lib.annb_store_column_codes(self._pointer, ffi.NULL, n, ffi.from_buffer("int32_t[]", values), error), error)
            return values, None
        missing = np.empty(n, np.bool_) if self.nullable else None
        mask = ffi.from_buffer("uint8_t[]", missing) if missing is not None else ffi.NULL
        check(lib.annb_store_column_gather(self._pointer, ffi.NULL, n, ffi.from_buffer(values.view(np.uint8)), mask, error), error)
        return values, missing


def cut(data, ends):
    """Strings of their bytes: an object array."""
    out, start = np.empty(len(ends), object), 0
    for i, end in enumerate(ends.tolist()):
        out[i] = data[start:end].decode("utf-8", "surrogateescape")
        start = end
    return out


def with_missing(values, missing):
    """Values with a mask in pandas' nullable type for them; values as they are without one."""
    import pandas as pd

    if missing is None:
        return values
    if values.dtype == object:
        values[missing] = pd.NA
        return pd.array(values, dtype="string")
    if values.dtype == np.float16:
        return np.where(missing, np.float16("nan"), values)
    kinds = {"b": pd.arrays.BooleanArray, "i": pd.arrays.IntegerArray, "u": pd.arrays.IntegerArray, "f": pd.arrays.FloatingArray}
    return kinds[values.dtype.kind](values, missing.copy())


class Table:
    """obs or var of a store: a mapping from column names to pandas Series, each read when it is first asked for.

    `table["name"]` is a Series (categoricals as such; fixed values without a copy, so read-only), `table[["a", "b"]]` a DataFrame,
    `table.to_pandas()` the whole DataFrame. Everything else that a DataFrame has is done on that: `table.groupby(…)`.
    """

    def __init__(self, handle, axis, length, n_parts):
        self._handle, self._axis, self._length = handle, axis, length
        self._columns = read_columns(handle, axis, n_parts)
        self._cache = {}

    @property
    def columns(self) -> list[str]:
        """The names of the columns, without the index, as a list."""
        return list(self._columns.named)

    @property
    def names(self) -> pd.Index:
        """The index (names of cells or genes) as a pandas Index of str."""
        if "names" not in self._cache:
            self._cache["names"] = names_of(self._columns.index, self._length)
        return self._cache["names"]

    def column(self, name: str) -> Column:
        """The `Column` called `name`, for reading without pandas."""
        try:
            return self._columns.named[name]
        except KeyError:
            where = "; ".join(self.columns[:20]) or "none"
            raise errors.NotFoundError(
                f"{self._axis} has no column {name!r}{errors.near(name, self.columns)}; there are: {where}. "
                "Nested and date columns are only in the sidecar"
            ) from None

    def to_pandas(self) -> pd.DataFrame:
        """A DataFrame of all columns with the names as index."""
        return self[self.columns]

    def __getitem__(self, key: Any) -> Any:
        import pandas as pd

        if isinstance(key, str):
            if key not in self._cache:
                self._cache[key] = self.column(key).array()
            return pd.Series(self._cache[key], index=self.names, name=key, copy=False)
        if isinstance(key, list) and all(isinstance(k, str) for k in key):
            return pd.DataFrame({k: self[k] for k in key}, index=self.names, columns=key, copy=False)
        return self.to_pandas()[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self.columns:
            return self[name]
        return getattr(self.to_pandas(), name)

    def __contains__(self, name: object) -> bool:
        return name in self._columns.named

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return self._length

    @property
    def shape(self) -> tuple[int, int]:
        return self._length, len(self.columns)

    def __repr__(self):
        listed = ", ".join(f"{c.name} ({'categorical' if c.kind == 'categorical' else c.dtype})" for c in self._columns.named.values())
        return f"annblock {self._axis}: {self._length} × {len(self.columns)}: {listed or 'no columns'}"

    def _repr_html_(self) -> str:
        """As pandas shows it; of very many rows the columns only, as pandas would have to read them all."""
        return self.to_pandas()._repr_html_() if len(self) <= MOST_SHOWN else f"<pre>{html.escape(repr(self))}</pre>"


class Columns:
    """The columns of one axis: `index` (a Column or None) and `named` (a dictionary in order)."""

    def __init__(self, found):
        self.index = next((c for c in found if c.is_index), None)
        self.named = {c.name: c for c in found if not c.is_index}


def read_columns(handle, axis, n_parts):
    """The columns of an axis: views of the one part's, or those that the parts have together."""
    n, error = ffi.new("uint32_t *"), local.error
    one = n_parts == 1
    out = ffi.new("const annb_column **" if one else "const annb_joint_column **")
    found: list[Column] = []
    check(
        lib.annb_part_n_columns(handle, 0, AXES[axis], n, error) if one else lib.annb_store_n_columns(handle, AXES[axis], n, error), error
    )
    for i in range(n[0]):
        if one:
            check(lib.annb_part_column(handle, 0, AXES[axis], i, out, error), error)
        else:
            check(lib.annb_store_column(handle, AXES[axis], i, out, error), error)
        found.append((Column if one else JointColumn)(handle, out[0]))
    return Columns(found)


def names_of(column, length):
    """A pandas Index of the names; their numbers as text where there are none, as anndata does."""
    import pandas as pd

    if column is None:
        return pd.RangeIndex(length).astype(str)
    values = column.array()
    if isinstance(values, np.ndarray) and values.dtype != object:
        values = values.astype(str).astype(object)
    return pd.Index(values, name=None if column.name in ("_index", "") else column.name)
