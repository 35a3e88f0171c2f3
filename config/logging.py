"""Structured logs: one line for each stage, always with the same fields, as JSON or for people."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any, Literal, TextIO, TypedDict

import structlog

LogFormat = Literal["json", "console"]

_LOGGER = "chorale"

TEXT_FIELDS = frozenset({"text", "texts", "question", "questions"})
"""Fields that hold what people asked: taken off every line unless texts are wanted."""

_LEVELS = {"failed": logging.WARNING, "partial": logging.WARNING}
"""Level by the status of a stage; INFO for the others."""


class StageLine(TypedDict):
    """The fields of a stage's line, all of them always there; structlog adds `level` and `timestamp`."""

    event: Literal["stage"]
    stage: str
    """A `chorale_client.words.Stage`, or `search.<branch>`."""
    request_id: str
    correlation_id: str | None
    """The caller's own id."""
    ms: float
    n_in: int | None
    n_out: int | None
    status: str
    """A `StageStatus`."""
    reason: str | None
    """A `Reason`, where the status is not `ok`."""


def log_stage(
    stage: str,
    *,
    request_id: str,
    correlation_id: str | None = None,
    ms: float,
    n_in: int | None = None,
    n_out: int | None = None,
    status: str = "ok",
    reason: str | None = None,
    **texts: Any,
) -> None:
    """Write the line of one stage; `texts` (names of TEXT_FIELDS) appear only where the installation wants them."""
    level = _LEVELS.get(status, logging.INFO)
    if not logging.getLogger(_LOGGER).isEnabledFor(level):
        return
    line = StageLine(
        event="stage",
        stage=str(stage),
        request_id=request_id,
        correlation_id=correlation_id,
        ms=round(ms, 3),
        n_in=n_in,
        n_out=n_out,
        status=str(status),
        reason=None if reason is None else str(reason),
    )
    structlog.get_logger(_LOGGER).log(level, **line, **texts)


def set_up_logging(
    *,
    level: str = "INFO",
    log_format: LogFormat = "console",
    texts: bool = False,
    stream: TextIO | None = None,
) -> None:
    """Send structlog's and the standard library's lines through one renderer, to stderr unless `stream`.

    Call once in each process, before any work.  Lines of libraries have `event` and `logger` only.
    """
    out = stream or sys.stderr
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        *([] if texts else [_without_texts]),
    ]
    renderers: dict[LogFormat, list[structlog.typing.Processor]] = {
        "json": [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()],
        # Plain tracebacks: the pretty ones print local variables, texts and addresses among them.
        "console": [
            structlog.dev.ConsoleRenderer(
                colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ],
    }
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers[log_format]],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # At INFO Celery has two lines for each task, which say nothing that the stages do not.
    logging.getLogger("celery").setLevel(max(logging.WARNING, root.level))
    # A line for each attempt at a node that is away; the error at the end has the address and the reason.
    logging.getLogger("elastic_transport.node_pool").setLevel(max(logging.ERROR, root.level))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _without_texts(_: Any, __: str, line: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in line.items() if field not in TEXT_FIELDS}
