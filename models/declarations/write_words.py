"""Whether what is sent to an endpoint can write: a keyword of Cypher or SQL, anywhere in its address, parameters or body."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote_plus, urlsplit

from models.declarations import cypher

_WRITING = re.compile(
    r"(?<![\w-])(?:(?P<word>ALTER|CREATE|DELETE|DENY|DETACH|DROP|EXEC|EXECUTE|FOREACH|GRANT|INSERT|LOAD|MERGE|REMOVE|RENAME|REVOKE"
    r"|SET|TRUNCATE|UPDATE|UPSERT)|REPLACE\s+INTO|SELECT\b.*\bINTO)(?![\w-])",
    re.IGNORECASE | re.DOTALL,
)
_QUOTES = "'\"`"
_CALL = re.compile(r"\bCALL(\s|/\*)", re.IGNORECASE)


def writing_word(options: Mapping[str, Any]) -> str | None:
    """The first keyword with which a request of a store of kind `http` writes; None if it only reads.

    A keyword counts as a whole word in any case, but not alone in quotation marks or backticks: that is a value or a name.  The
    text of a field `cypher` is read as Cypher (`models.declarations.cypher`).
    """
    parts = urlsplit(str(options.get("url", "")))
    sent = (unquote_plus(f"{parts.path}?{parts.query}"), options.get("params"), options.get("body"))
    return next(filter(None, map(_word, _texts(sent))), None)


def _word(field_text: tuple[str, bool]) -> str | None:
    text, is_cypher = field_text
    if is_cypher:
        return cypher.writing_word(text)
    for form in (text, cypher.decoded(text)):
        for match in _WRITING.finditer(form):
            before, after = form[match.start() - 1 : match.start()], form[match.end() : match.end() + 1]
            if not (match["word"] and before and before == after and before in _QUOTES):
                return match["word"] or match[0].split()[0]
    return cypher.writing_word(text) if _CALL.search(text) else None


def _texts(value: Any, name: str = "") -> Iterator[tuple[str, bool]]:
    """Each text with the names of the fields, and whether it is Cypher."""
    if isinstance(value, Mapping):
        for field, part in value.items():
            yield field, False
            yield from _texts(part, field)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part, name)
    elif isinstance(value, str):
        yield value, name == "cypher"
