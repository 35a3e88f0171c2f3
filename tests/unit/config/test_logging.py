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
    set_up_logging(level="DEBUG", log_format="json", stream=stream)
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


@pytest.mark.parametrize(("status", "level"), [("ok", "debug"), ("skipped", "debug"), ("failed", "warning")])
def test_a_stage_that_failed_is_a_warning(status: str, level: str, stream: io.StringIO) -> None:
    set_up_logging(level="DEBUG", log_format="json", stream=stream)
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
    set_up_logging(level="DEBUG", log_format=log_format, texts=texts, stream=stream)
    log_stage("plan", request_id="r1", ms=1, questions=["who is Ada?"])
    structlog.get_logger("chorale").warning("odd", text="who is Ada?")
    assert ("Ada" in stream.getvalue()) is texts
    assert len(stream.getvalue().splitlines()) == 2


def test_lines_of_libraries_have_the_same_shape(stream: io.StringIO) -> None:
    set_up_logging(level="DEBUG", log_format="json", stream=stream)
    logging.getLogger("some.library").warning("took %s ms", 3)
    (line,) = lines(stream)
    assert (line["event"], line["logger"], line["level"]) == ("took 3 ms", "some.library", "warning")


def test_setting_up_again_does_not_double_the_lines(stream: io.StringIO) -> None:
    set_up_logging(level="DEBUG", log_format="json", stream=stream)
    set_up_logging(level="DEBUG", log_format="json", stream=stream)
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
        level="DEBUG",
        log_format="json",
        texts=True,
        stream=io.TextIOWrapper(raw, encoding="utf-8", write_through=True),
    )
    log_stage("plan", request_id="r1", ms=1, text="\ud800")
    assert json.loads(raw.getvalue())["text"] == "\ud800"


HOSTILE = "a \x1b]52;c;x\a\x9b2J\u202eb\n2026-11-23 [error    ] forged\r"
SHOWN = r"a \x1b]52;c;x\x07\x9b2J\u202eb\n2026-11-23 [error    ] forged\x0d"


@pytest.mark.parametrize("texts", ["event", "field", "other"])
def test_a_hostile_text_is_one_line_of_the_console_and_is_not_obeyed(texts: str, stream: io.StringIO) -> None:
    class Hostile:
        def __repr__(self) -> str:
            return HOSTILE

    set_up_logging(level="DEBUG", stream=stream)
    if texts == "event":
        logging.getLogger("some.library").warning("no %s", HOSTILE)
    else:
        value: Any = HOSTILE if texts == "field" else Hostile()
        log_stage("plan", request_id="r1", ms=1, correlation_id=value)
    (line,) = stream.getvalue().splitlines()
    assert SHOWN in line


def test_the_message_of_an_error_cannot_look_like_a_line_of_the_log(stream: io.StringIO) -> None:
    set_up_logging(stream=stream)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logging.getLogger("x").exception("failed")
    said = stream.getvalue()
    assert not [line for line in said.splitlines() if line.startswith("2026-11-23 [")]
    assert r"\x1b]52;c;x\x07\x9b2J\u202eb" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("text", ["é 漢字 👩\u200d💻 می\u200cخواهم", "it's \\ x=1"])
def test_ordinary_texts_stay_readable_in_the_console(text: str, stream: io.StringIO) -> None:
    set_up_logging(level="DEBUG", stream=stream, texts=True)
    log_stage("plan", request_id="r1", ms=1, question=text)
    said = stream.getvalue().partition("question=")[2]
    assert said.startswith("'" + text.replace("\\", r"\\").replace("'", r"\'") + "'")


def test_json_lines_keep_hostile_texts_exactly(stream: io.StringIO) -> None:
    set_up_logging(level="DEBUG", log_format="json", stream=stream)
    log_stage("plan", request_id="r1", ms=1, correlation_id=HOSTILE)
    assert stream.getvalue().isascii()
    assert lines(stream)[0]["correlation_id"] == HOSTILE
