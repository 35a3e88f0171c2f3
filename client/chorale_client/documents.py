"""Checks of what a caller hands in: lists, documents that can be split and embedded in minutes, and room for them in Redis."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from redis import Redis

from chorale_client.errors import InvalidRequest, NoRoom
from chorale_client.limits import MAX_DOCUMENT_BYTES, MAX_DOCUMENTS, MAX_MESSAGE_BYTES, MAX_METADATA_BYTES
from chorale_client.scripts import Scripts

_NOT_METADATA = ("id", "title", "text", "markup", "page_starts")


def document_bytes(document: object) -> int:
    """Size of the document as JSON in UTF-8.  Raises RecursionError, TypeError, ValueError if it is no JSON."""
    return len(json.dumps(document, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass"))


def why_not_sendable(document: object) -> str | None:
    """Why a document cannot be handed in: it is no JSON, or it is too large.  None if it can."""
    return _sized(document)[1]


def _sized(document: object) -> tuple[int, str | None]:
    """The size of the document as JSON in bytes; or 0, and why it cannot be handed in."""
    try:
        size = document_bytes(document)
        metadata = 0
        if size > MAX_METADATA_BYTES and isinstance(document, Mapping):
            metadata = document_bytes(
                {name: document[name] for name in document if name not in _NOT_METADATA}
            )
    except (RecursionError, TypeError, ValueError) as error:
        return 0, f"not JSON: {error}"
    if metadata > MAX_METADATA_BYTES:
        return 0, f"metadata: {metadata:,} bytes; at most {MAX_METADATA_BYTES:,} are allowed"
    if size > MAX_DOCUMENT_BYTES:
        limit = f"at most {MAX_DOCUMENT_BYTES:,} are allowed, so hand it in as several documents"
        return 0, f"{size:,} bytes; {limit}"
    return size, None


def faults_of(documents: Any) -> list[tuple[Any, str | None]]:
    """Each document of a message with why it cannot be handed in; None if it can.

    Raises InvalidRequest if `documents` is no list, or too much for one message.
    """
    checked, sum_bytes = [], 0
    for document in checked_list("documents", documents, most=MAX_DOCUMENTS):
        size, why = _sized(document)
        checked.append((document, why))
        sum_bytes += size
    if sum_bytes > MAX_MESSAGE_BYTES:
        raise InvalidRequest(
            f"documents: {sum_bytes:,} bytes in one message; at most {MAX_MESSAGE_BYTES:,} are allowed"
        )
    return checked


def checked_list(name: str, values: Any, *, most: int) -> list[Any]:
    """The items as a list.  Raises InvalidRequest for more than `most`, and for a single text or object, which Python could
    iterate too."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidRequest(f"{name}: a list, even of one; not a {type(values).__name__}")
    items = list(values)
    if len(items) > most:
        raise InvalidRequest(f"{name}: {len(items):,} in one message; at most {most:,} are allowed")
    return items


def checked_documents(documents: Any) -> list[Any]:
    """The documents as a list.  Raises InvalidRequest with the number of a document that is no JSON or too large."""
    documents = faults_of(documents)
    for number, (_, why) in enumerate(documents, start=1):
        if why is not None:
            raise InvalidRequest(f"documents: number {number}: {why}")
    return [document for document, _ in documents]


def check_memory(client: Redis, queue: str, size: int, *, of: str, whom: str) -> None:
    """Raises NoRoom if Redis has no room for so many bytes more; RedisError."""
    if usage := Scripts(client).run("room", keys=[queue], args=[size]):
        raise NoRoom(*usage, of=of, whom=whom)
