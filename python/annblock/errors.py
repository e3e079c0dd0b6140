"""What can go wrong: one exception per status of the C library, all of them `annblock.Error`."""


class Error(Exception):
    """A failure of annblock. The message is a sentence for a person; the attributes say the same to programs.

    `code` is the C library's status (negative; `status` its name, like "ANNB_ECORRUPT"), `path` the file it concerns or None,
    `row` the row it concerns or None. Where Python has an exception for it the class is that too: RangeError is an IndexError.
    """

    code = 0
    status = ""

    def __init__(self, message="", path=None, row=None, errno=None):
        super().__init__(message)
        self.message, self.path, self.row = message, path, row
        self._errno = errno

    def __str__(self):
        return self.message

    def __reduce__(self):
        return type(self), (self.message, self.path, self.row, self._errno)


class InputOutputError(Error, OSError):
    """Reading or writing a file failed; `errno` as OSError has it."""

    @property
    def errno(self):  # type: ignore[override]
        return self._errno


class OutOfMemoryError(Error, MemoryError):
    """There is not enough memory."""


class ArgumentError(Error, ValueError):
    """An argument does not make sense."""


class NotAStoreError(Error):
    """The path is not an annblock store."""


class VersionError(Error):
    """The store was made for another version of the format."""


class UnsupportedError(Error):
    """The data is right but has something that is not handled."""


class CorruptError(Error):
    """Bytes in the store are not what was written."""


class ExistsError(Error, FileExistsError):
    """The output exists already."""


class ConflictError(Error):
    """Another writer committed first."""


class RangeError(Error, IndexError):
    """A row, gene or column is out of range."""


class LossyError(Error, ValueError):
    """A value cannot be held exactly by the type asked for."""


class CapacityError(Error, ValueError):
    """A buffer is too small."""


class InputError(Error, ValueError):
    """The input file is bad."""


class NotFoundError(Error, KeyError):
    """There is no such matrix, column, name or generation."""


class CanceledError(Error):
    """The operation was cancelled."""


BY_STATUS = {
    "ANNB_EIO": InputOutputError,
    "ANNB_ENOMEM": OutOfMemoryError,
    "ANNB_EINVAL": ArgumentError,
    "ANNB_ENOTSTORE": NotAStoreError,
    "ANNB_EVERSION": VersionError,
    "ANNB_EUNSUPPORTED": UnsupportedError,
    "ANNB_ECORRUPT": CorruptError,
    "ANNB_EEXIST": ExistsError,
    "ANNB_ECONFLICT": ConflictError,
    "ANNB_ERANGE": RangeError,
    "ANNB_ELOSSY": LossyError,
    "ANNB_ECAPACITY": CapacityError,
    "ANNB_EINPUT": InputError,
    "ANNB_ENOTFOUND": NotFoundError,
    "ANNB_ECANCELED": CanceledError,
}


MOST_NAMES = 100_000


def near(name, names):
    """"; did you mean 'X'?" when one of `names` is much like `name`, else nothing. Of long lists nothing: looking takes seconds."""
    from difflib import get_close_matches

    if len(names) > MOST_NAMES:
        return ""
    same = [n for n in names if n.lower() == str(name).lower()]
    found = same or get_close_matches(str(name), list(names), 1, 0.75)
    return f"; did you mean {found[0]!r}?" if found else ""
