"""Values of a caller's in errors and logs: on one line, printable, and cut."""

from __future__ import annotations

import reprlib

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = MAX_SHOWN = 80


def safe_repr(value: object) -> str:
    """The value as Python writes it, at most 80 characters."""
    try:
        return _REPR.repr(value)[:MAX_SHOWN]
    except ValueError:
        return "a number of thousands of digits"


def display_name(name: object) -> str:
    """A name as it is if it is short and printable; otherwise as `shown`."""
    is_plain = isinstance(name, str) and len(name) <= MAX_SHOWN and name.isprintable()
    return str(name) if is_plain else safe_repr(name)
