"""Where one character ends as a reader sees it: a letter with its accents, a flag, an emoji with all that joins it."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right

_JOINER = "\u200d"
_MOST = 32
"""Code points of one character; longer ones are cut."""


def _is_flag_half(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _jamo(char: str) -> int:
    """The part of a Korean syllable, of which none comes before a smaller one: 1 to 3; else 0."""
    return bisect_right((0x1100, 0x1160, 0x11A8), ord(char)) if "\u1100" <= char <= "\u11ff" else 0


def _joins(before: str, char: str) -> bool:
    if before == _JOINER or char == _JOINER:
        return True
    if unicodedata.category(char)[0] == "M" or "\U0001f3fb" <= char <= "\U0001f3ff":
        return True
    # A virama (combining class 9) joins two consonants.
    if unicodedata.combining(before) == 9:
        return unicodedata.category(char) == "Lo"
    return 0 < _jamo(before) <= _jamo(char) or "\U000e0020" <= char <= "\U000e007f"


def character_start(text: str, at: int) -> int:
    """`at`, or where the character starts that a cut before `text[at]` would separate."""
    for start in range(at, max(0, at - _MOST), -1):
        if start >= len(text):
            return start
        if _is_flag_half(text[start]):
            halves = 0
            while start - halves > 0 and _is_flag_half(text[start - halves - 1]):
                halves += 1
            return start - halves % 2
        if not _joins(text[start - 1], text[start]):
            return start
    return at if at >= _MOST else 0
