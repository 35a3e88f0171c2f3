"""A request as JSON: dumped once, with its fingerprint and the first fields of its answer."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from pydantic import BaseModel
from pydantic_core import to_json

from chorale_client.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class WrittenRequest:
    text: str
    """JSON."""
    fingerprint: str
    """A hash that is equal for equal requests; it detects an id that is used again for another request."""
    head: str
    """The first fields of the answer, as JSON text without its braces."""


def write_request(request: BaseModel, *, has_headers: bool) -> WrittenRequest:
    """Dump a `Request`, whose module imports this one.  Raises InvalidRequest if the request holds what JSON cannot."""
    # A request that is sent again may come from another span.  Older workers do not know headers.
    not_hashed = {"traceparent", "headers"}
    if "timeout_s" not in request.model_fields_set:
        not_hashed.add("timeout_s")
    # Older clients and workers do not know these fields, and make the same hash without them.
    not_hashed |= {name for name in ("on_end", "linked") if not getattr(request, name)}
    try:
        hashed = request.model_dump_json(exclude=not_hashed)
        rest = request.model_dump_json(include=not_hashed if has_headers else not_hashed - {"headers"})
    except ValueError as error:
        raise InvalidRequest(f"request: not JSON: {str(error)[:200]}") from None
    first = {name: getattr(request, name) for name in ("request_id", "correlation_id", "namespace")}
    return WrittenRequest(
        f"{hashed[:-1]},{rest[1:]}",
        hashlib.sha256(hashed.encode()).hexdigest()[:32],
        to_json(first).decode()[1:-1],
    )
