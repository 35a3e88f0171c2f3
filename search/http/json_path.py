"""Looking up a path in a JSON document."""

from __future__ import annotations

from typing import Any

from models.http_endpoint import JsonPath


def at(document: Any, path: JsonPath) -> Any:
    """The value at the path, or None.  A leading `$` means the document itself."""
    steps = path.removeprefix("$").lstrip(".").split(".") if isinstance(path, str) else path
    for step in steps:
        if isinstance(document, dict):
            document = document.get(str(step))
        elif isinstance(document, list) and str(step).isdecimal() and int(step) < len(document):
            document = document[int(step)]
        else:
            return None
    return document
