from ._native import ffi, lib
