"""Long lists in parts: a server takes so many names a call, a database so many parameters a statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

One = TypeVar("One")


def in_parts(items: Sequence[One], size: int) -> Iterator[Sequence[One]]:
    """All of them in order, `size` at a time."""
    for first in range(0, len(items), size):
        yield items[first : first + size]


def different_in_parts(names: Iterable[str], size: int) -> Iterator[Sequence[str]]:
    """Each once, in the order in which they come first."""
    return in_parts(tuple(dict.fromkeys(names)), size)
