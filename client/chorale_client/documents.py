"""Checks of what a caller hands in: lists, and documents that can be split and embedded in minutes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from chorale_client.errors import InvalidRequest

MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
"""Maximum size of one document as a line of JSON; it takes an index worker a few minutes."""


def document_bytes(document: object) -> int:
    """Size of the document as JSON in UTF-8.  Raises RecursionError, TypeError, ValueError if it is no JSON."""
    return len(json.dumps(document, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass"))


def why_not_sendable(document: object) -> str | None:
    """Why a document cannot be handed in: it is no JSON, or it is too large.  None if it can."""
    try:
        size = document_bytes(document)
    except (RecursionError, TypeError, ValueError) as error:
        return f"not JSON: {error}"
    if size > MAX_DOCUMENT_BYTES:
        return (
            f"{size:,} bytes; at most {MAX_DOCUMENT_BYTES:,} are allowed, so hand it in as several documents"
        )
    return None


def checked_list(name: str, given: Any) -> list[Any]:
    """The items as a list.  Raises InvalidRequest for a single text or object, which Python could iterate too."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidRequest(f"{name}: a list, even of one; not a {type(given).__name__}")
    return list(given)


def checked_documents(given: Any) -> list[Any]:
    """The documents as a list.  Raises InvalidRequest with the number of a document that is no JSON or too large."""
    documents = checked_list("documents", given)
    for number, document in enumerate(documents, start=1):
        if (why := why_not_sendable(document)) is not None:
            raise InvalidRequest(f"documents: number {number}: {why}")
    return documents
