"""A request as JSON, within its limit of size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chorale_client.documents import document_bytes
from chorale_client.errors import InvalidRequest
from chorale_client.formatting import display_name
from chorale_client.limits import MAX_REQUEST_BYTES
from chorale_client.request import Request


def request_json(request: Request) -> str:
    """Raises InvalidRequest for a request that is too large, or holds what JSON cannot."""
    try:
        text = request.model_dump_json()
    except ValueError as error:
        raise InvalidRequest(f"request: not JSON: {str(error)[:200]}") from None
    # A character takes up to four bytes.
    if len(text) > MAX_REQUEST_BYTES // 4:
        check_size(len(text.encode()), request.model_dump)
    return text


def check_fields(fields: Mapping[str, Any]) -> None:
    """Raises InvalidRequest for the fields of a request that are too large, or cannot be JSON, before they are read."""
    try:
        size = document_bytes(fields)
    except (RecursionError, TypeError, ValueError) as error:
        raise InvalidRequest(f"request: not JSON: {str(error)[:200]}") from None
    check_size(size, lambda: fields)


def check_size(size: int, fields: Callable[[], Mapping[str, Any]] = dict) -> None:
    """Raises InvalidRequest, which names the largest of the `fields`, for a request of too many bytes."""
    if size <= MAX_REQUEST_BYTES:
        return
    sizes = {name: document_bytes(value) for name, value in fields().items()}
    largest = max(sizes, key=sizes.__getitem__, default="request")
    raise InvalidRequest(
        f"{display_name(largest)}: the request has {size:,} bytes as JSON{', most of them here' if sizes else ''}; "
        f"at most {MAX_REQUEST_BYTES:,} are allowed"
    )
