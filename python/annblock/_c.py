"""Calling the C library: status to exception, per-thread scratch memory, arrays over its memory."""

import os
import threading

import numpy as np

from . import errors
from ._native import ffi, lib

DTYPES = {
    lib.ANNB_BOOL: "bool",
    lib.ANNB_I8: "int8",
    lib.ANNB_I16: "int16",
    lib.ANNB_I32: "int32",
    lib.ANNB_I64: "int64",
    lib.ANNB_U8: "uint8",
    lib.ANNB_U16: "uint16",
    lib.ANNB_U32: "uint32",
    lib.ANNB_U64: "uint64",
    lib.ANNB_F16: "float16",
    lib.ANNB_F32: "float32",
    lib.ANNB_F64: "float64",
}
NUMPY = {code: np.dtype(name) for code, name in DTYPES.items()}
CODES = {dtype: code for code, dtype in NUMPY.items()}
AXES = {"obs": lib.ANNB_AXIS_OBS, "var": lib.ANNB_AXIS_VAR}


def class_of(status):
    """The exception class of a status, its code and name filled in."""
    return errors.BY_STATUS.get(text(lib.annb_status_name(status)), errors.Error)


def fill_codes():
    for code in range(-len(errors.BY_STATUS), 0):
        kind = class_of(code)
        kind.code, kind.status = code, text(lib.annb_status_name(code))


class Local(threading.local):
    """Of one thread: the error that calls fill."""

    def __init__(self):
        self.error = ffi.new("annb_error *")


def new_context():
    """Scratch memory for calls of one thread at a time, with the threads that help them; they end when it is gone."""
    out, error = ffi.new("annb_context **"), local.error
    check(lib.annb_context_open(out, error), error)
    return ffi.gc(out[0], lib.annb_context_close)


def text(chars):
    """A Python string of a C one; bytes that are not UTF-8 survive as surrogates."""
    return ffi.string(chars).decode("utf-8", "surrogateescape") if chars else ""


def exception(error, chars=ffi.string):
    """The exception that an annb_error tells; `chars` reads C strings of the module that the error is from."""
    path = os.fsdecode(chars(error.path)) or None
    row = error.row if error.row >= 0 else None
    return class_of(int(error.status))(chars(error.message).decode("utf-8", "replace"), path, row, error.system_errno or None)


def check(status, error):
    if status:
        raise exception(error)


def path_bytes(path):
    """A path for C: bytes, which must not hold a NUL."""
    raw = os.fsencode(path)
    if b"\0" in raw:
        raise errors.ArgumentError("a path must not contain a NUL byte")
    return raw


def name_bytes(name):
    raw = name.encode("utf-8", "surrogateescape")
    if b"\0" in raw:
        raise errors.NotFoundError(f"there is nothing called {name!r}: there are no NUL characters in names and predicates")
    return raw


class View:
    """Memory of the C library as numpy takes it. Arrays over it keep `owner`, and so the mapping, alive."""

    def __init__(self, pointer, length, dtype, owner):
        address = int(ffi.cast("uintptr_t", pointer)) if length else 0
        self.owner = owner
        self.__array_interface__ = {"version": 3, "shape": (length,), "typestr": dtype.str, "data": (address, True)}


def view(pointer, length, dtype, owner):
    """A read-only array over `length` values at `pointer`, without a copy."""
    if not length:
        return np.empty(0, dtype)
    return np.asarray(View(pointer, length, dtype, owner))


local = Local()
fill_codes()
