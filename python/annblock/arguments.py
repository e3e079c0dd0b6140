"""Numbers that a caller gives: what they may be."""

from . import errors


def whole(value, what, wanted="whole number"):
    """An integer, or a number that is one; ArgumentError."""
    try:
        if not isinstance(value, (bool, str)) and int(value) == value:
            return int(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise errors.ArgumentError(f"{what} is a {wanted}, not {value!r}")


def natural(value, what, end=1 << 32, first=0):
    number = whole(value, what, f"number from {first} on")
    if number < first:
        raise errors.ArgumentError(f"{what} is a number from {first} on, not {value!r}")
    if number >= end:
        raise errors.ArgumentError(f"{what} is too large: {value!r}")
    return number


def positive(value, what):
    return natural(value, what, first=1)
