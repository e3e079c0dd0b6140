"""Checking every byte of a store."""

from dataclasses import dataclass
from typing import Any

from . import _c
from ._c import ffi, lib, path_bytes
from ._progress import Run, ignore


@dataclass(frozen=True)
class Finding:
    """Something wrong in a store: `status` ("ANNB_ECORRUPT"), `path` of the file relative to the store, `row` of that file and
    `store_row` (both None where there is none), `message`."""

    status: str
    path: str
    row: int | None
    store_row: int | None
    message: str


class Check(Run):
    def __init__(self, progress):
        super().__init__(progress, "verify")
        self.findings = []

    def add(self, finding):
        row, store_row = (n if n >= 0 else None for n in (finding.row, finding.store_row))
        name = _c.text(lib.annb_status_name(finding.status))
        self.findings.append(Finding(name, _c.text(finding.path), row, store_row, _c.text(finding.message)))
        return True


@ffi.def_extern(onerror=ignore)
def annbpy_finding(user, finding):
    run = ffi.from_handle(user)
    return run.guard(run.add, finding)


@ffi.def_extern(onerror=ignore)
def annbpy_verify_progress(user, done, total):
    run = ffi.from_handle(user)
    return run.guard(run.step, "", done, total)


def verify(store: Any, progress: bool | str = True) -> list[Finding]:
    """Check every byte of the store at `store`: a list of `Finding`, empty when it is whole. NotAStoreError, InputOutputError.

    >>> annblock.verify(example_store)
    []
    """
    run = Check(progress)
    user, n, error = ffi.new_handle(run), ffi.new("uint64_t *"), ffi.new("annb_error *")
    path = getattr(store, "path", store)
    status = lib.annb_verify(path_bytes(path), lib.annbpy_finding, lib.annbpy_verify_progress, user, n, error)
    run.close(status, error, _c.exception)
    return run.findings
