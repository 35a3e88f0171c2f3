"""The order of a metadata listing, for every store that sorts by itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from search.filters import Fields, date_span, elements, is_number

_NUMBERS, _DATES, _TEXTS = range(3)


def listed(documents: Sequence[tuple[str, Fields]], order_by: str, *, descending: bool) -> list[int]:
    """The indices of `documents` (id, fields) in the order of a field (see `search.protocol.Lists`)."""
    groups: tuple[list[tuple[Any, str, int]], ...] = ([], [], [])
    without: list[tuple[str, int]] = []
    first = max if descending else min
    for place, (document_id, fields) in enumerate(documents):
        keys = [_key(value) for value in elements(fields, order_by)]
        if keys:
            group = min(group for group, _ in keys)
            groups[group].append((first(key for of, key in keys if of == group), document_id, place))
        else:
            without.append((document_id, place))
    order: list[int] = []
    for entries in groups:
        entries.sort(key=lambda one: one[1])
        # A reversed sort is stable too.
        entries.sort(key=lambda one: one[0], reverse=descending)
        order += [place for _, _, place in entries]
    return order + [place for _, place in sorted(without)]


def _key(value: Any) -> tuple[int, Any]:
    if is_number(value):
        return _NUMBERS, value
    return _text_key(str(value))


@lru_cache(maxsize=2**17)
def _text_key(value: str) -> tuple[int, Any]:
    """Cached, because parsing dates takes nearly all the time of a long listing."""
    span = date_span(value)
    return (_TEXTS, value) if span is None else (_DATES, span[0])
