"""What pydantic has against a table, as one sentence for each place in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

Place = tuple[str, ...]

_WANTED = "Input should be "


def complaints(error: ValidationError, table: Mapping[str, Any]) -> Iterator[tuple[Place, str, str]]:
    """Place, kind of error and message of each error.

    For a field with alternative types pydantic reports an error for each type, with the type in the place; these are
    merged into one.
    """
    found: dict[Place, list[tuple[str, str]]] = {}
    for one in error.errors(include_url=False, include_input=False):
        place = _place(one["loc"], table, missing=one["type"] in ("missing", "extra_forbidden"))
        found.setdefault(place, []).append((one["type"], one["msg"].removeprefix("Value error, ")))
    for place, said in found.items():
        inside = any(other[: len(place)] == place for other in found if len(other) > len(place))
        apt = [(kind, text) for kind, text in said if not kind.endswith("_type")]
        if apt:
            yield from ((place, kind, text) for kind, text in apt)
        elif not inside:
            texts = [text.removeprefix(_WANTED) for _, text in said]
            yield place, said[0][0], _WANTED + " or ".join(texts) if len(texts) > 1 else said[0][1]


def _place(loc: tuple[int | str, ...], table: Any, *, missing: bool) -> Place:
    """Only the parts of `loc` that are keys or positions in the table; the others are names of types."""
    place: list[str] = []
    for part in loc:
        is_in = (
            part in table if isinstance(table, Mapping) else isinstance(table, list) and isinstance(part, int)
        )
        if is_in or (missing and part == loc[-1]):
            place.append(str(part))
        if is_in:
            table = table[part]
    return tuple(place)
