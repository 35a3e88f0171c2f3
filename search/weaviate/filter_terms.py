"""What is known of a document, as terms of one text array: any metadata, one schema for all namespaces.

A property for each metadata name and type would make Weaviate keep an index of its own for each of them in every
tenant, and show each namespace the names of all others.  Here a value becomes a handful of terms, its kind
first: its presence, itself, of texts overlapping windows for `contains`, and of numbers and dates the prefixes of a
code whose order is theirs, so that a range is any of some hundred terms at most (as Lucene's numeric fields had it).
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from search.filters import Fields, date_span, elements, field_names, is_number

_END = "\x1f"
"""Ends each part of a term, since Weaviate trims white space at both ends."""

EVERY = _END
"""The term that every object has."""

_LONGEST = 256
"""Texts of more characters are compared by their hash."""

LONGEST_PART = 1_024
"""`contains` takes texts of up to so many characters: looking for one may take its length times that of all texts."""

_WINDOW = 32_768
_FLOAT_IS_EXACT = 2**53
"""Up to here a float stands for one integer alone."""

_CODE_IS_EXACT = 2**64
"""Up to here a code stands for one integer alone."""

_FARTHEST = 0xFFF

# Weaviate's `like` knows no escape for its two wildcards, which go no further than the end of a line.
_WILD = str.maketrans({"*": "\ue000", "?": "\ue001", "\n": "\ue002"})


@dataclass(frozen=True, slots=True)
class Scale:
    """Codes of one width over one alphabet (its first digit is 0), whose order is that of what they stand for."""

    kind: str
    alphabet: str
    width: int

    def terms(self, field: str, code: str) -> Iterator[str]:
        """What a value is indexed as: the prefixes of its code, up to the last digit that is not 0."""
        short = code.rstrip("0")
        for length in range(1, len(short) + 1):
            yield _term(self.kind, field, short[:length])
        yield self.same(field, code)

    def same(self, field: str, code: str) -> str:
        return _term(self.kind, field, f"{code.rstrip('0')}=")

    def above(self, field: str, code: str) -> Iterator[str]:
        """Every greater value has one of these, and no other value has."""
        full = code.ljust(self.width, "0")
        for place, digit in enumerate(full):
            for greater in self.alphabet[self.alphabet.index(digit) + 1 :]:
                yield _term(self.kind, field, full[:place] + greater)

    def below(self, field: str, code: str) -> Iterator[str]:
        """Every smaller value has one of these, and no other value has."""
        short = code.rstrip("0")
        for place, digit in enumerate(short):
            # The values that end here, with nothing but zeros after it.
            yield _term(self.kind, field, f"{short[:place]}=")
            for smaller in self.alphabet[: self.alphabet.index(digit)]:
                yield _term(self.kind, field, short[:place] + smaller)


NUMBERS = Scale("n", "0123456789abcdef", 19)
MOMENTS = Scale("m", "0123456789", 20)
DAYS = Scale("d", "0123456789", 8)
"""Bare dates, which begin and end at different moments."""


def facets(fields: Fields) -> list[str]:
    """All terms of a document's fields, each once."""
    found: dict[str, None] = {EVERY: None}
    for field in dict.fromkeys(field_names(fields)):
        values = elements(fields, field)
        if values:
            found[has_field(field)] = None
        for value in values:
            found.update(dict.fromkeys(_terms(field, value)))
    return list(found)


def has_field(field: str) -> str:
    return _term("e", field)


def same_text(field: str, text: str) -> str:
    return _hashed("s", field, text)


def same_other(field: str, value: object) -> str:
    """True, false, and whatever is neither text nor number."""
    return _hashed("j", field, json.dumps(value, sort_keys=True, default=repr))


def same_number(field: str, value: int | float) -> str:
    if abs(value) < _FLOAT_IS_EXACT:
        return NUMBERS.same(field, number_code(value))
    is_infinite = isinstance(value, float) and math.isinf(value)
    return _term("i", field, str(value) if is_infinite else hex(int(value)))


def same_day(field: str, moment: datetime) -> str:
    """What a bare date and the moments of its day have in common."""
    return _term("t", field, day_code(moment))


def has_part(field: str, part: str) -> str:
    """A pattern for `like`: any text with this part, of LONGEST_PART characters at most, whatever the case."""
    return _term("c", field.translate(_WILD), f"*{_folded(part)}*")


def number_code(value: int | float) -> str:
    """The greatest float that is not above it, in IEEE 754 with its bits turned so that the codes are in the numbers'
    order; then how far it lies above that float."""
    floor = _floor(value)
    (bits,) = struct.unpack(">Q", struct.pack(">d", floor))
    code = bits ^ (2**64 - 1) if bits >> 63 else bits | 1 << 63
    above = 0
    if value != floor:
        above = _FARTHEST if math.isinf(floor) else min(int(value) - int(floor), _FARTHEST)
    return f"{code:016x}{above:03x}"


def is_exact_bound(value: int | float) -> bool:
    """Whether every number is above, below or equal to it as their codes are."""
    return isinstance(value, float) or abs(value) <= _CODE_IS_EXACT or value == _floor(value)


def _floor(value: int | float) -> float:
    try:
        nearest = float(value) + 0.0  # -0.0 is 0.0
    except OverflowError:
        return sys.float_info.max if value > 0 else -math.inf
    return math.nextafter(nearest, -math.inf) if nearest > value else nearest


def moment_code(moment: datetime) -> str:
    """Of a moment in UTC: `20240501233000000000`."""
    return "".join(filter(str.isdigit, moment.replace(tzinfo=None).isoformat(timespec="microseconds")))


def day_code(moment: datetime) -> str:
    return moment_code(moment)[: DAYS.width]


def _terms(field: str, value: object) -> Iterator[str]:
    if is_number(value):
        if value == value:
            yield from NUMBERS.terms(field, number_code(value))
            yield same_number(field, value)
    elif isinstance(value, str):
        yield same_text(field, value)
        whole = _folded(value)
        # Windows overlap, so that each part of LONGEST_PART characters stands whole in one of them.
        for start in range(0, max(1, len(whole) - LONGEST_PART), _WINDOW - LONGEST_PART):
            yield _term("c", field.translate(_WILD), whole[start : start + _WINDOW])
        yield from _date_terms(field, value)
    else:
        yield same_other(field, value)


def _date_terms(field: str, value: str) -> Iterator[str]:
    span = date_span(value)
    if span is None:
        return
    first, last = span
    yield same_day(field, first)
    if first == last:
        yield from MOMENTS.terms(field, moment_code(first))
    else:
        yield from DAYS.terms(field, day_code(first))


def _folded(text: str) -> str:
    return text.casefold().translate(_WILD)


def _hashed(kind: str, field: str, text: str) -> str:
    if len(text) > _LONGEST:
        return _term(kind.upper(), field, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
    return _term(kind, field, text)


def _term(kind: str, field: str, value: str = "") -> str:
    # Lone surrogates are spelled out: no message can carry them.
    return f"{kind}{field}{_END}{value}{_END}".encode("utf-8", "backslashreplace").decode()
