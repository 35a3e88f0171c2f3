"""Checks of what a caller hands in: lists, documents that can be split and embedded in minutes, and room for them in Redis."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from redis import Redis

from chorale_client.errors import InvalidRequest, QueueFull
from chorale_client.limits import MAX_DOCUMENT_BYTES, MAX_DOCUMENTS, MAX_MESSAGE_BYTES, MAX_METADATA_BYTES
from chorale_client.scripts import Scripts

_NOT_METADATA = ("id", "title", "text", "markup", "page_starts")


def document_bytes(value: object) -> int:
    """Size of the value as JSON in UTF-8.  Raises RecursionError, TypeError, ValueError if it is no JSON."""
    return len(json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass"))


def to_json(value: object) -> bytes:
    """Raises RecursionError, TypeError, ValueError if the value is no JSON."""
    # A half character becomes the escape that JSON has for it.
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class WrittenDocument:
    """A document as JSON in UTF-8, dumped once."""

    json: bytes
    fault: str | None = None
    """Why the document cannot be handed in (`json` is empty if it is no JSON); None if it can."""


def write_document(document: object) -> WrittenDocument:
    if isinstance(document, WrittenDocument):
        return document
    try:
        whole = to_json(document)
        metadata = 0
        if len(whole) > MAX_METADATA_BYTES and isinstance(document, Mapping):
            metadata = len(to_json({name: document[name] for name in document if name not in _NOT_METADATA}))
    except (RecursionError, TypeError, ValueError) as error:
        return WrittenDocument(b"", f"not JSON: {error}")
    if metadata > MAX_METADATA_BYTES:
        fault = f"metadata: {metadata:,} bytes; at most {MAX_METADATA_BYTES:,} are allowed"
        return WrittenDocument(whole, fault)
    if len(whole) > MAX_DOCUMENT_BYTES:
        limit = f"at most {MAX_DOCUMENT_BYTES:,} are allowed, so hand it in as several documents"
        return WrittenDocument(whole, f"{len(whole):,} bytes; {limit}")
    return WrittenDocument(whole)


def write_documents(documents: Any) -> list[WrittenDocument]:
    """Each document of a message.  Raises InvalidRequest if `documents` is no list, or too much for one message."""
    written = [
        write_document(document) for document in checked_list("documents", documents, most=MAX_DOCUMENTS)
    ]
    sum_bytes = sum(len(document.json) for document in written if document.fault is None)
    if sum_bytes > MAX_MESSAGE_BYTES:
        raise InvalidRequest(
            f"documents: {sum_bytes:,} bytes in one message; at most {MAX_MESSAGE_BYTES:,} are allowed"
        )
    return written


def checked_list(name: str, values: Any, *, most: int) -> list[Any]:
    """The items as a list.  Raises InvalidRequest for more than `most`, and for a single text or object, which Python could
    iterate too."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidRequest(f"{name}: a list, even of one; not a {type(values).__name__}")
    items = list(values)
    if len(items) > most:
        raise InvalidRequest(f"{name}: {len(items):,} in one message; at most {most:,} are allowed")
    return items


def check_memory(client: Redis, queue: str, size: int, *, items: str, consumers: str) -> None:
    """Raises QueueFull if Redis has no room for so many bytes more; RedisError."""
    if usage := Scripts(client).run("check_memory", keys=[queue], args=[size]):
        raise QueueFull(*usage, items=items, consumers=consumers)
