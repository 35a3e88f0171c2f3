"""The fields of a document that filters see, as terms of one array in a server's index: one schema for any metadata.

With a field for each metadata name, a server's schema would grow with the data: Elasticsearch stops at 1,000 fields, the
type of the first value would exclude others, and Weaviate would show each namespace the names of all others.  Here a value becomes a few terms, each starting with its kind: one for
presence, one for the value, overlapping windows of a text for `contains`, and the prefixes of a sortable code for
numbers and dates.  A range is then any of a few hundred terms (as in Lucene's numeric fields).
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

from search.filters import Fields, all_terms, date_span, is_number, numeral

_END = "\x1f"
"""Ends each part of a term, because Weaviate trims white space at both ends."""

EVERY = _END
"""The term that every object has."""

_LONGEST = 256
"""Longer texts and names (in characters) are compared by their hash."""

LONGEST_PART = 1_024
"""Maximum characters of a text for `contains`; windows of longer texts overlap by so much."""

_WINDOW = 7_000
"""Characters; a term of Lucene has 32,766 bytes at most."""
_FLOAT_IS_EXACT = 2**53
"""Up to here a float stands for one integer only."""

_CODE_IS_EXACT = 2**64
"""Up to here a code stands for one integer only."""

_FARTHEST = 0xFFF

# Weaviate's `like` cannot escape its two wildcards, and they do not match beyond the end of a line.
_WILD = str.maketrans({"*": "\ue000", "?": "\ue001", "\n": "\ue002"})


@dataclass(frozen=True, slots=True)
class Scale:
    """Codes of one length over one alphabet (its first digit is 0), which sort like the values they stand for."""

    kind: str
    alphabet: str
    width: int

    def terms(self, field: str, code: str) -> Iterator[str]:
        """The indexed terms of a value: the prefixes of its code, up to the last digit that is not 0."""
        short = code.rstrip("0")
        for length in range(1, len(short) + 1):
            yield _term(self.kind, field, short[:length])
        yield self.same(field, code)

    def same(self, field: str, code: str) -> str:
        return _term(self.kind, field, f"{code.rstrip('0')}=")

    def above(self, field: str, code: str) -> Iterator[str]:
        """Terms that select the greater values: each greater value has one of them, other values have none."""
        full = code.ljust(self.width, "0")
        for place, digit in enumerate(full):
            for greater in self.alphabet[self.alphabet.index(digit) + 1 :]:
                yield _term(self.kind, field, full[:place] + greater)

    def below(self, field: str, code: str) -> Iterator[str]:
        """Terms that select the smaller values: each smaller value has one of them, other values have none."""
        short = code.rstrip("0")
        for place, digit in enumerate(short):
            # The values that end here, followed only by zeros.
            yield _term(self.kind, field, f"{short[:place]}=")
            for smaller in self.alphabet[: self.alphabet.index(digit)]:
                yield _term(self.kind, field, short[:place] + smaller)


NUMBERS = Scale("n", "0123456789abcdef", 19)
NUMERALS = Scale("v", NUMBERS.alphabet, NUMBERS.width)
"""Texts that are numerals."""
MOMENTS = Scale("m", "0123456789", 20)
DAYS = Scale("d", "0123456789", 8)
"""Bare dates, which begin and end at different moments."""


def facets(fields: Fields) -> list[str]:
    """All terms of a document's fields, each once."""
    return list(dict.fromkeys([EVERY, *all_terms(fields, has_field, _terms)]))


def has_field(field: str) -> str:
    return _term("e", field)


def same_text(field: str, text: str) -> str:
    return _hashed("s", field, text)


def same_other(field: str, value: object) -> str:
    """The term of true, of false, and of any value that is neither text nor number."""
    return _hashed("j", field, json.dumps(value, sort_keys=True, default=repr))


def same_number(field: str, value: int | float) -> str:
    if abs(value) < _FLOAT_IS_EXACT:
        return NUMBERS.same(field, number_code(value))
    is_infinite = isinstance(value, float) and math.isinf(value)
    return _term("i", field, str(value) if is_infinite else hex(int(value)))


def same_day(field: str, moment: datetime) -> str:
    """The term that a bare date and all moments of its day share."""
    return _term("t", field, day_code(moment))


def same_period(field: str, value: str) -> Iterator[str]:
    """Two terms of a year or month: each of its moments has the first, and each of its bare dates has the second."""
    for scale in (MOMENTS, DAYS):
        yield _term(scale.kind, field, value.replace("-", ""))


def part_of(field: str, part: str) -> tuple[str, str]:
    """A term that has a text's window begins with the first one, and has the other one in it if the text contains the part."""
    return _term("c", field.translate(_WILD)).removesuffix(_END), folded(part)


def number_code(value: int | float) -> str:
    """The greatest float <= value, in IEEE 754 with bits changed so that codes sort like numbers; then the distance
    to it."""
    floor = _floor(value)
    (bits,) = struct.unpack(">Q", struct.pack(">d", floor))
    code = bits ^ (2**64 - 1) if bits >> 63 else bits | 1 << 63
    above = 0
    if value != floor:
        above = _FARTHEST if math.isinf(floor) else min(int(value) - int(floor), _FARTHEST)
    return f"{code:016x}{above:03x}"


def is_exact_bound(value: int | float) -> bool:
    """Whether every number compares to it exactly as their codes compare."""
    return isinstance(value, float) or abs(value) <= _CODE_IS_EXACT or value == _floor(value)


def _floor(value: int | float) -> float:
    try:
        nearest = float(value) + 0.0  # -0.0 is 0.0
    except OverflowError:
        return sys.float_info.max if value > 0 else -math.inf
    return math.nextafter(nearest, -math.inf) if nearest > value else nearest


def moment_code(moment: datetime) -> str:
    """The code of a moment in UTC: `20240501233000000000`."""
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
        whole = folded(value)
        # Windows overlap, so that every part of LONGEST_PART characters lies within one of them.
        for start in range(0, max(1, len(whole) - LONGEST_PART), _WINDOW - LONGEST_PART):
            yield _term("c", field.translate(_WILD), whole[start : start + _WINDOW])
        if (number := numeral(value)) is not None:
            yield from NUMERALS.terms(field, number_code(number))
        if (span := date_span(value)) is not None:
            first, last = span
            yield same_day(field, first)
            is_moment = first == last
            yield from (MOMENTS if is_moment else DAYS).terms(
                field, moment_code(first) if is_moment else day_code(first)
            )
    else:
        yield same_other(field, value)


def folded(text: str) -> str:
    return text.casefold().translate(_WILD)


def _hashed(kind: str, field: str, text: str) -> str:
    if len(text) > _LONGEST:
        return _term(kind.upper(), field, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
    return _term(kind, field, text)


def _term(kind: str, field: str, value: str = "") -> str:
    if len(field) > _LONGEST:
        field = hashlib.sha256(field.encode("utf-8", "surrogatepass")).hexdigest()
    # Lone surrogates are escaped, because no message can hold them.
    return f"{kind}{field}{_END}{value}{_END}".encode("utf-8", "backslashreplace").decode()
