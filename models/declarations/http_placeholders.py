"""The placeholders in `url`, `params` and `body` of a store of kind `http`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

PLACES: Mapping[str, tuple[str, ...]] = {
    "question": ("url", "params", "body"),
    "vector": ("params", "body"),
    "depth": ("url", "params", "body"),
    "namespace": ("url", "params", "body"),
    "key": ("params", "body"),
    "filter": ("body",),
}
"""The fields that may contain each placeholder, which stands in braces; other braces stay as they are."""
PLACE = re.compile("{(" + "|".join(PLACES) + ")}")
_LIKE_A_PLACE = re.compile(r"{([A-Za-z_]\w*)}")


def placeholders(options: Mapping[str, Any]) -> set[str]:
    """The names of the placeholders that the options of a store contain."""
    return {name for _, text in _texts(options) for name in PLACE.findall(text)}


def wrong_placeholder(options: Mapping[str, Any]) -> str | None:
    """The field and the name of a placeholder that this field cannot contain; None if there is none.

    A name in braces inside other braces, as in GraphQL, is no placeholder.
    """
    for path, text in _texts(options, "headers"):
        allowed = [name for name, fields in PLACES.items() if path.partition(".")[0] in fields]
        for match in _LIKE_A_PLACE.finditer(text):
            is_inside = text.count("{", 0, match.start()) > text.count("}", 0, match.start())
            if match[1] in allowed or (is_inside and match[1] not in PLACES):
                continue
            if match[1] in PLACES:
                why = f"put {match[0]} into the {' or '.join(PLACES[match[1]])}"
            else:
                why = f"no placeholder {match[0]} ({{ {match[1]} }}, with spaces, keeps the braces)"
            return f"{path}: {why}; there are: {', '.join(f'{{{name}}}' for name in allowed) or 'none'}"
    return None


def _texts(options: Mapping[str, Any], *more: str) -> Iterator[tuple[str, str]]:
    """Each text of the fields that may contain placeholders, and of `more` fields, after its path such as `body.query.0`."""
    inside = [(field, options.get(field)) for field in ("url", "params", "body", *more)]
    while inside:
        path, value = inside.pop(0)
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, Mapping):
            inside += [(f"{path}.{name}", one) for name, one in value.items()]
        elif isinstance(value, list | tuple):
            inside += [(f"{path}.{at}", one) for at, one in enumerate(value)]
