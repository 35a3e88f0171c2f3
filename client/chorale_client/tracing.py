"""The caller's place in its trace, for `Request.traceparent`."""

from __future__ import annotations

import re
import sys

from chorale_client.errors import safe_repr

TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""Version 00 of the W3C Trace Context."""


def check_traceparent(value: str) -> str:
    if not TRACEPARENT.fullmatch(value):
        raise ValueError(
            f"a traceparent is 00-<32 hex digits>-<16 hex digits>-<2 hex digits>; not {safe_repr(value)}"
        )
    return value


def valid_traceparent(value: object) -> str | None:
    """The value of a header; None if it is no traceparent."""
    return value if isinstance(value, str) and TRACEPARENT.fullmatch(value) else None


def current_traceparent() -> str | None:
    """The caller's current span, if the caller's program uses OpenTelemetry.  This function imports nothing."""
    if (trace := sys.modules.get("opentelemetry.trace")) is None:
        return None
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
