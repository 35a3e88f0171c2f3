"""Identifiers in texts: versions, dates, times, addresses, prices, part numbers, names in code.

The words of `2.10.1` are also those of `1.10.2`.  Therefore an identifier also has a *whole*: its parts in order, joined by
underscores, whatever signs join them in the text.  `AB-123/4`, `AB123/4` and `AB 123 4` have the whole `ab_123_4`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from models.texts.readable_text import CJK, SOUTH_EAST_ASIA

MAX_CHARS = 200
"""Only this many characters of an identifier count."""


class Identifier(NamedTuple):
    whole: str
    """In lower case, of letters, digits and underscores; one number without signs for `1,299.00`."""
    start: int
    end: int
    is_certain: bool = False
    """Whether its form distinguishes an identifier from words with a hyphen or a decimal number."""
    is_inner: bool = False
    """Whether it is a part of a longer one, such as the version in `python-3.12.1`."""


_W = rf"[^\W_{CJK}{SOUTH_EAST_ASIA}]"
# Without the scripts of which each character may begin a match: a long run of them would be read once for each.
_LETTER = rf"[^\W\d_{CJK}{SOUTH_EAST_ASIA}]"
_MARKS = r"\u0300-\u036f"
"""An identifier neither begins nor ends between a letter and its accent."""
_JOIN = r"(?:::|->|_+|[-\u2010-\u2013\u2212./:\\@&^]|(?<=\d)[,'\u2019](?=\d))"
_CAMEL = r"(?:(?<=[a-z][a-z])(?=[A-Z][A-Za-z])|(?<=[A-Z])(?=[A-Z][a-z]{2}))"
_FORM = re.compile(
    rf"(?<!{_W})(?<![{_MARKS}])(?:{_W}++(?:{_JOIN}{_W}++)++(?:\+\+|\#(?!\w))?"
    rf"|(?={_LETTER}+\d|\d+{_LETTER}|[A-Za-z]+?{_CAMEL}){_W}++(?!\+\+)"
    rf"|{_W}++\+\+|[A-Za-z]{{1,2}}\#|(?<![\w.])\.[A-Za-z]{_W}++)(?![{_MARKS}])"
)
_UNSPACED = re.compile(r"\S+")
# Letters and figures with spaces between.
_SPACED = re.compile(r"(?<![\w.])[A-Z]{1,5}(?:[-./]?\d+)?(?: \d+(?:[-./]\d+)*)+(?!\w)")
_BOUNDARY = re.compile(_CAMEL)
_PART = re.compile(r"\d+|[^\W\d_]+|\+\+|\#|^\.")
_SIGNS = {"++": "plus_plus", "#": "sharp", ".": "dot"}
_GROUPED = re.compile(r"(\d{1,3}(?:([,.'\u2019])\d{3})(?:\2\d{3})*)(?:(?!\2)[.,](\d+))?")
_NUMBERS = re.compile(r"\d+(?:([-.:/])\d+)(?:\1\d+)*")
_VERSION = re.compile(r"[vV](?=\d+\.\d)")
_CERTAIN = re.compile(
    r"(?=.*\d)(?=.*[^\W\d_]).+"  # a digit and a letter
    r"|.*(?:_|::|->|\\|@|\+\+|\#).*|\..*"
    rf"|.*{_CAMEL}.*"
    r"|[^\W\d_]{2,}(?:\.[^\W\d_]{2,})+"
    r"|\d+(?:[.:/\-]\d+){2,}"  # digits in three or more parts
    r"|\d{1,2}:\d\d"
    r"|\d{1,3}(?:[,'\u2019]\d{3})+(?:\.\d+)?"
)
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|s)", re.IGNORECASE)
_LINE_END = re.compile(r"[-\u2010][ \t]*\r?\n[ \t]*([^\W\d_]{2,})")
_LETTERS = re.compile(r"[^\W\d_]+")
_LAST_WORD = re.compile(r"[^\W\d_]{2,}\Z")


class Forms(NamedTuple):
    """What a readable text (`models.texts.readable_text`) has beside its words."""

    identifiers: Sequence[Identifier]
    words: Sequence[tuple[str, int, int]]
    """Words inside of words, with start and end: `User` in `getUserName`, and the word of both halves at a line end."""


def forms(text: str) -> Forms:
    """Those of each kind in order."""
    identifiers: list[Identifier] = []
    words: list[tuple[str, int, int]] = []
    for unspaced in _UNSPACED.finditer(text):
        at, run = unspaced.start(), unspaced[0]
        if inside := _forms_of(run) if len(run) < MAX_CHARS else _forms_of.__wrapped__(run):
            identifiers += [
                one._replace(start=one.start + at, end=one.end + at) for one in inside.identifiers
            ]
            words += [(word, start + at, end + at) for word, start, end in inside.words]
    for match in _SPACED.finditer(text):
        identifiers += _spaced(match[0][:MAX_CHARS], match.start())
    for match in _LINE_END.finditer(text):
        if before := _LAST_WORD.search(text, max(0, match.start() - MAX_CHARS), match.start()):
            words.append((before[0] + match[1], before.start(), match.end()))
    return Forms(identifiers, words)


@lru_cache(1 << 15)
def _forms_of(run: str) -> Forms | None:
    """The identifiers and words in a run of characters without white space; None if there are none."""
    identifiers: list[Identifier] = []
    words: list[tuple[str, int, int]] = []
    for match in _FORM.finditer(run):
        word = match[0][:MAX_CHARS]
        identifiers += _identifiers_of(word, match.start())
        words += _words_inside(word, match.start())
    return Forms(identifiers, words) if identifiers or words else None


def has_words_inside(text: str) -> bool:
    """Whether `forms` may find any, in a fraction of the time."""
    return _BOUNDARY.search(text) is not None or _LINE_END.search(text) is not None


_NUMBER = re.compile(r"(?<![\w.,:/-])\d+(?!\w|[.,:/-]\d)")


def wholes(text: str) -> frozenset[str]:
    """The wholes of a readable text, with its numbers: `1299` is that of `1,299.00`."""
    return frozenset([*(one.whole for one in forms(text).identifiers), *_NUMBER.findall(text)])


def wholes_of_question(question: str) -> frozenset[str]:
    """The wholes that somebody looks for who asks this readable question: of words with a hyphen there are none."""
    return frozenset(
        one.whole
        for one in forms(question).identifiers
        if not one.is_inner and (one.is_certain or one.whole.replace("_", "").isdecimal())
    )


def _identifiers_of(word: str, start: int) -> Iterator[Identifier]:
    end = start + len(word)
    if grouped := _GROUPED.fullmatch(word):
        number = re.sub(r"\D", "", grouped[1])
        rest = f"_{grouped[3]}" if (grouped[3] or "").strip("0") else ""
        yield Identifier(number + rest, start, end, is_certain=grouped[2] != ".")
        if grouped[2] != "." or grouped[3]:
            return
    shift = 1 if _VERSION.match(word) else 0
    if (whole := _whole(word[shift:])) is None:
        return
    is_certain = _CERTAIN.fullmatch(word) is not None and not _ORDINAL.fullmatch(word)
    yield Identifier(whole, start, end, is_certain)
    for numbers in _NUMBERS.finditer(word, shift):
        if len(numbers[0]) < len(word) - shift and (inner := _whole(numbers[0])) is not None:
            yield Identifier(inner, start + numbers.start(), start + numbers.end(), is_inner=True)


def _spaced(words: str, start: int) -> Iterator[Identifier]:
    """The whole of `AB 123 4`, and that of `AB 123` in it."""
    for space in re.finditer(" |$", words):
        if (whole := _whole(words[: space.start()])) is not None:
            is_inner = space.start() < len(words)
            yield Identifier(whole, start, start + space.start(), not is_inner, is_inner)


def _whole(word: str) -> str | None:
    parts = _PART.findall(_BOUNDARY.sub("_", word))
    if len(parts) < 2 or all(len(part) == 1 and part.isalpha() for part in parts):
        return None
    if len(parts) == 2 and all(part.isalpha() for part in parts) and re.search("[-\u2010-\u2013/]", word):
        return None  # an ordinary word with a hyphen
    whole = "_".join(_SIGNS.get(part, part) for part in parts)
    return unicodedata.normalize("NFKC", whole).lower()


def _words_inside(word: str, start: int) -> Iterator[tuple[str, int, int]]:
    if _BOUNDARY.search(word):
        at = start
        for part in _BOUNDARY.split(word):
            for inner in _LETTERS.finditer(part):
                yield inner[0], at + inner.start(), at + inner.end()
            at += len(part)
