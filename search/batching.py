"""Splitting long lists: a server limits the names in one call, a database the parameters of one statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

One = TypeVar("One")


def in_batches(items: Sequence[One], size: int) -> Iterator[Sequence[One]]:
    """All items in order, `size` at a time."""
    for first in range(0, len(items), size):
        yield items[first : first + size]


def distinct_in_batches(names: Iterable[str], size: int) -> Iterator[Sequence[str]]:
    """Each name once, in order of first appearance, `size` at a time."""
    return in_batches(tuple(dict.fromkeys(names)), size)
