"""The line of the log that every ended request leaves."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import structlog

from config.logging import set_up_logging
from monitoring.ended_requests import log_ended
from records.audit.outbox import Ended

ENDED = Ended(
    "t.acme.1",
    1_000,
    1_040,
    "fusion",
    request={"correlation_id": "order-17", "namespace": "docs", "questions": [{"text": "Who is Ada?"}]},
    plan={"searched": [0], "branches": [{"name": "bm25"}, {"name": "vector"}]},
    answer={
        "status": "degraded",
        "degraded": [{"where": "search.vector", "reason": "timeout", "detail": "Who is Ada?"}],
        "stages": [{"stage": "search.bm25", "ms": 12.5, "start_ms": 4}],
        "questions": [{"hits": [{}, {}]}],
    },
    branch_results={"bm25": {"status": "ok", "rankings": []}},
)


pytestmark = pytest.mark.usefixtures("logging_as_before")


def logged(*, level: str = "INFO", texts: bool = False) -> list[dict[str, Any]]:
    stream = io.StringIO()
    set_up_logging(level=level, log_format="json", texts=texts, stream=stream)
    structlog.configure(cache_logger_on_first_use=False)
    log_ended([ENDED])
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_request_leaves_one_line_of_json_at_info() -> None:
    (line,) = logged()
    del line["timestamp"]
    assert line == {
        "event": "request",
        "level": "info",
        "logger": "chorale.request",
        "request_id": "t.acme.1",
        "correlation_id": "order-17",
        "namespace": "docs",
        "status": "degraded",
        "by": "fusion",
        "took_ms": 40,
        "degraded": ["search.vector timeout"],
        "cached": False,
        "asked": 1,
        "hits": 2,
        "branches": {"bm25": {"outcome": "ok", "ms": 12.5}, "vector": {"outcome": "timeout", "ms": None}},
    }


def test_the_texts_of_questions_are_logged_only_if_the_installation_wants_it() -> None:
    assert logged(texts=True)[0]["questions"] == ["Who is Ada?"]
    assert "Ada" not in str(logged())
    assert logged(level="WARNING") == [], "an installation that logs warnings alone"
