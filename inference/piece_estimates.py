"""Word pieces of texts whose tokenizer is not here: an estimate of their number, and texts cut to a number."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable


def estimated_pieces(text: str) -> int:
    """The number of words or a fourth of the bytes, whichever is more."""
    return max(len(text.split()), -(-len(text.encode("utf-8", "replace")) // 4))


def cut_to(max_pieces: int, text: str, count: Callable[[str], int] = estimated_pieces) -> str:
    """The longest beginning of the text with at most `max_pieces`."""
    if count(text) <= max_pieces:
        return text
    return text[: bisect_right(range(len(text)), max_pieces, key=lambda end: count(text[:end])) - 1]
