"""Logs: one line for each stage, always with the same fields, and no texts by default."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
import structlog

from config.logging import log_stage, set_up_logging


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_stage_has_all_its_fields_even_those_that_are_not_known(stream: io.StringIO) -> None:
    set_up_logging(log_format="json", stream=stream)
    log_stage("fuse", request_id="r1", ms=1.23456)
    (line,) = lines(stream)
    assert line.keys() >= {"level", "timestamp", "logger"}
    assert {name: line[name] for name in line.keys() - {"level", "timestamp", "logger"}} == {
        "event": "stage",
        "stage": "fuse",
        "request_id": "r1",
        "correlation_id": None,
        "ms": 1.235,
        "n_in": None,
        "n_out": None,
        "status": "ok",
        "reason": None,
    }
    assert datetime.fromisoformat(line["timestamp"]).utcoffset() is not None


@pytest.mark.parametrize(("status", "level"), [("ok", "info"), ("skipped", "info"), ("failed", "warning")])
def test_a_stage_that_failed_is_a_warning(status: str, level: str, stream: io.StringIO) -> None:
    set_up_logging(log_format="json", stream=stream)
    log_stage("search.bm25", request_id="r1", ms=1, status=status)
    assert lines(stream)[0]["level"] == level


def test_a_quiet_worker_writes_failures_only(stream: io.StringIO) -> None:
    set_up_logging(level="WARNING", log_format="json", stream=stream)
    log_stage("fuse", request_id="r1", ms=1)
    log_stage("fuse", request_id="r2", ms=1, status="failed", reason="timeout")
    assert [(line["request_id"], line["reason"]) for line in lines(stream)] == [("r2", "timeout")]


@pytest.mark.parametrize("log_format", ["json", "console"])
@pytest.mark.parametrize("texts", [True, False])
def test_texts_of_questions_are_logged_only_if_the_installation_wants_it(
    texts: bool, log_format: Any, stream: io.StringIO
) -> None:
    set_up_logging(log_format=log_format, texts=texts, stream=stream)
    log_stage("plan", request_id="r1", ms=1, questions=["who is Ada?"])
    structlog.get_logger("chorale").warning("odd", text="who is Ada?")
    assert ("Ada" in stream.getvalue()) is texts
    assert len(stream.getvalue().splitlines()) == 2


def test_lines_of_libraries_have_the_same_shape(stream: io.StringIO) -> None:
    set_up_logging(log_format="json", stream=stream)
    logging.getLogger("some.library").warning("took %s ms", 3)
    (line,) = lines(stream)
    assert (line["event"], line["logger"], line["level"]) == ("took 3 ms", "some.library", "warning")


def test_setting_up_again_does_not_double_the_lines(stream: io.StringIO) -> None:
    set_up_logging(log_format="json", stream=stream)
    set_up_logging(log_format="json", stream=stream)
    log_stage("fuse", request_id="r1", ms=1)
    assert len(lines(stream)) == 1


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_traceback_shows_no_local_variables(log_format: Any, stream: io.StringIO) -> None:
    set_up_logging(log_format=log_format, stream=stream)
    password = "open" + "sesame"
    try:
        raise ValueError(len(password))
    except ValueError:
        logging.getLogger("x").exception("failed")
    assert "ValueError" in stream.getvalue()
    assert "opensesame" not in stream.getvalue()


def test_a_lone_surrogate_in_a_text_does_not_break_the_line() -> None:
    raw = io.BytesIO()
    set_up_logging(
        log_format="json", texts=True, stream=io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    )
    log_stage("plan", request_id="r1", ms=1, text="\ud800")
    assert json.loads(raw.getvalue())["text"] == "\ud800"
