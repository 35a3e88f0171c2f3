"""Structured logs, as JSON or for people: at DEBUG one line with fixed fields for each stage of a request.

The line of the whole request is that of `monitoring.ended_requests`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from io import StringIO
from textwrap import indent
from typing import Any, Literal, TextIO

import structlog

from config.visible_text import visible, visible_line

LogFormat = Literal["json", "console"]

_LOGGER = "chorale"

TEXT_FIELDS = frozenset({"text", "texts", "question", "questions"})
"""Fields with texts of questions; removed from every line unless the installation wants texts."""

_LEVELS = {"failed": logging.WARNING, "partial": logging.WARNING}
"""Level by the status of a stage; DEBUG for the others."""


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
    """Write the line of one stage.  It always has all these fields; structlog adds `level` and `timestamp`.

    `stage`: a `chorale_client.wire_names.Stage`, or `search.<branch>`.  `correlation_id`: the caller's own id.  `status`: a
    `StageStatus`.  `reason`: a `Reason` unless the status is `ok`.  `texts` (names of TEXT_FIELDS) are written only if the
    installation wants them.
    """
    level = _LEVELS.get(status, logging.DEBUG)
    if not logging.getLogger(_LOGGER).isEnabledFor(level):
        return
    structlog.get_logger(_LOGGER).log(
        level,
        event="stage",
        stage=str(stage),
        request_id=request_id,
        correlation_id=correlation_id,
        ms=round(ms, 3),
        n_in=n_in,
        n_out=n_out,
        status=str(status),
        reason=None if reason is None else str(reason),
        **texts,
    )


def set_up_logging(
    *,
    level: str = "INFO",
    log_format: LogFormat = "console",
    texts: bool = False,
    stream: TextIO | None = None,
) -> None:
    """Send the lines of structlog and of the standard library through one renderer, to `stream` or else to stderr.

    Call once in each process, before any work.  Lines of libraries have only `event` and `logger`.
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
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_renderers(log_format, colors=out.isatty()),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # At INFO Celery writes two lines for each task, which add nothing to the line of a request.
    logging.getLogger("celery").setLevel(max(logging.WARNING, root.level))
    # At INFO this client writes the whole address of each call, which may have a key.
    logging.getLogger("httpx2").setLevel(max(logging.WARNING, root.level))
    # They write a line for each attempt to reach a node; the final error has the address and the reason.
    for client in ("elastic_transport.node_pool", "opensearch"):
        logging.getLogger(client).setLevel(max(logging.ERROR, root.level))
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


def _renderers(log_format: LogFormat, *, colors: bool) -> list[structlog.typing.Processor]:
    if log_format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    # Plain tracebacks: rich ones print local variables, which may be texts and addresses.
    renderer = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=_visible_traceback)
    (fields,) = [column.formatter for column in renderer.columns if not column.key]
    assert isinstance(fields, structlog.dev.KeyValueColumnFormatter)
    fields.value_repr = _visible_value
    return [_visible_event, renderer]


def _visible_event(_: Any, __: str, line: Mapping[str, Any]) -> dict[str, Any]:
    return {**line, "event": visible_line(str(line["event"]))}


def _visible_value(value: Any) -> str:
    """In quotes if it could be taken for several fields."""
    if not isinstance(value, str):
        return visible_line(repr(value))
    if not value or set(value) & set(" \t\r\n=\"'"):
        value = "'" + value.replace("\\", r"\\").replace("'", r"\'") + "'"
    return visible_line(value)


def _visible_traceback(out: TextIO, error: structlog.typing.ExcInfo) -> None:
    """Indented, since the message of an error can have lines that look like ours."""
    plain = StringIO()
    structlog.dev.plain_traceback(plain, error)
    out.write(indent(visible(plain.getvalue()), "  "))


def _without_texts(_: Any, __: str, line: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in line.items() if field not in TEXT_FIELDS}
