"""Splitting long lists: a server limits the names in one call, a database the parameters of one statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

One = TypeVar("One")


def in_batches(items: Iterable[One], size: int) -> Iterator[list[One]]:
    """All items in order, `size` at a time; reads the items of a batch when the batch is asked for."""
    waiting = iter(items)
    while batch := list(islice(waiting, size)):
        yield batch


def in_messages(
    items: Iterable[One], size_of: Callable[[One], int], *, most: int, most_bytes: int
) -> Iterator[list[One]]:
    """All items in order.  A message has at most `most` items and `most_bytes`; a larger item has a message of its own."""
    message: list[One] = []
    size = 0
    for item in items:
        own = size_of(item)
        if message and (len(message) == most or size + own > most_bytes):
            yield message
            message, size = [], 0
        message.append(item)
        size += own
    if message:
        yield message


def distinct_in_batches(names: Iterable[str], size: int) -> Iterator[list[str]]:
    """Each name once, in order of first appearance, `size` at a time."""
    return in_batches(dict.fromkeys(names), size)
