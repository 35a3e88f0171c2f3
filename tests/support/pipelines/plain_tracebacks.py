"""Logs of the test's own process: structlog shows tracebacks with rich if nobody says otherwise, which takes a second each."""

from __future__ import annotations

import structlog


def log_plainly() -> None:
    renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[structlog.processors.add_log_level, renderer])
