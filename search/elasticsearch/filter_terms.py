"""The fields of a document that filters see, as terms of one keyword field.

With a field for each metadata name the mapping would grow with the data (Elasticsearch stops at 1,000 fields), and
the type of the first value would exclude others.  Here each value becomes a few terms `<field> <kind><value>`.
Within a kind, terms sort like their values, so a range of values is a range of terms.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from search.filters import Fields, all_terms, date_span, is_number

LONGEST_PART = 200
"""Maximum characters of a text for `contains`: a pattern may have 1,000 (`index.max_regex_length`)."""

_END = "\x1f"
_LONGEST = 200
"""Maximum characters of a field's name and of a text; longer ones are compared by their hash.

Lucene's longest term has 32,766 bytes.
"""
_WINDOW = 2 * LONGEST_PART
_DIGITS = 800
"""A float has at most 767 significant digits."""
_COMPLEMENT = str.maketrans("0123456789", "9876543210")
_BEGINNING = datetime.min.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def facets(fields: Fields) -> list[str]:
    """All terms of a document's fields, each once."""
    return list(dict.fromkeys(all_terms(fields, has_field, _terms)))


def term(field: str, kind: str, value: str = "") -> str:
    """The term for `value` of `field`; `kind` is one of the letters used in this module."""
    return f"{_short(field)}{_END}{kind}{value}"


def has_field(field: str) -> str:
    return term(field, "?")


def same_value(field: str, value: object) -> str:
    """The term that all equal values of a field share, except dates, which may equal other values too."""
    if isinstance(value, bool):
        return term(field, "b", str(value))
    if is_number(value):
        return term(field, "n", number_code(value))
    if isinstance(value, str):
        return term(field, "s", _short(value))
    return term(field, "j", _hash(json.dumps(value, sort_keys=True, default=repr)))


def number_code(value: int | float) -> str:
    """Exact, and sorted like the numbers: sign, decimal exponent, digits; digits are inverted below zero.  Not for
    NaN."""
    exact = Decimal(value)
    if not exact:
        return "1"
    if exact.is_infinite():
        code = "99999"
    else:
        digits = "".join(map(str, exact.as_tuple().digits)).rstrip("0")
        code = f"{exact.adjusted() + 50_000:05}{digits[:_DIGITS]}"
    return f"2{code}" if exact > 0 else f"0{code.translate(_COMPLEMENT)}~"


def moment_code(moment: datetime) -> str:
    """Microseconds since the year 1, in UTC."""
    return f"{(moment - _BEGINNING) // _MICROSECOND:018}"


def _terms(field: str, value: object) -> Iterator[str]:
    if value == value:  # not NaN, which equals nothing and has no order
        yield same_value(field, value)
    if not isinstance(value, str):
        return
    whole = value.casefold()
    # Windows overlap by half, so that every part of LONGEST_PART characters lies within one of them.
    for start in range(0, max(1, len(whole) - LONGEST_PART), LONGEST_PART):
        yield term(field, "c", whole[start : start + _WINDOW])
    if (span := date_span(value)) is not None:
        first, last = map(moment_code, span)
        yield term(field, "e", first + last)
        yield term(field, "l", last)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST and not text.startswith(_END) else _END + _hash(text)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
