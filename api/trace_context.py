"""The caller's span: that of a process which is instrumented for OpenTelemetry, or the header `traceparent`."""

from __future__ import annotations

from typing import Annotated

from chorale_client.tracing import current_traceparent, valid_traceparent
from fastapi import Depends, Header


async def _span(traceparent: Annotated[str | None, Header(include_in_schema=False)] = None) -> str | None:
    return current_traceparent() or valid_traceparent(traceparent)


CallersSpan = Annotated[str | None, Depends(_span)]
