"""Logs: one line for each stage, always with the same fields, and no texts by default."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
import structlog

from config.logging import log_stage, set_up_logging

pytestmark = pytest.mark.usefixtures("logging_as_before")

Setup = Callable[..., io.StringIO]


@pytest.fixture
def set_up() -> Setup:
    """Sets up logging and returns what is written to."""

    def with_options(**options: Any) -> io.StringIO:
        stream = io.StringIO()
        set_up_logging(**{"level": "DEBUG", "log_format": "json", "stream": stream, **options})
        return stream

    return with_options


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_stage_has_all_its_fields_even_those_that_are_not_known(set_up: Setup) -> None:
    set_up()
    stream = set_up()  # setting up again does not double the lines
    log_stage("fuse", request_id="r1", ms=1.23456)
    (line,) = lines(stream)
    assert datetime.fromisoformat(line.pop("timestamp")).utcoffset() is not None
    assert (line.pop("level"), line.pop("logger")) == ("debug", "chorale")
    known = {"event": "stage", "stage": "fuse", "request_id": "r1", "ms": 1.235, "status": "ok"}
    assert line == {**known, "correlation_id": None, "n_in": None, "n_out": None, "reason": None}


@pytest.mark.parametrize(("status", "level"), [("ok", "debug"), ("skipped", "debug"), ("failed", "warning")])
def test_a_stage_that_failed_is_a_warning(status: str, level: str, set_up: Setup) -> None:
    stream = set_up()
    log_stage("search.bm25", request_id="r1", ms=1, status=status)
    assert lines(stream)[0]["level"] == level
    quiet = set_up(level="WARNING")
    log_stage("search.bm25", request_id="r1", ms=1, status=status, reason="timeout")
    assert [line["reason"] for line in lines(quiet)] == (["timeout"] if level == "warning" else [])


@pytest.mark.parametrize("log_format", ["json", "console"])
@pytest.mark.parametrize("texts", [True, False])
def test_texts_are_logged_only_if_the_installation_wants_it(
    texts: bool, log_format: str, set_up: Setup
) -> None:
    stream = set_up(log_format=log_format, texts=texts)
    log_stage("plan", request_id="r1", ms=1, questions=["who is Ada?"])
    structlog.get_logger("chorale").warning("odd", text="who is Ada?")
    assert ("Ada" in stream.getvalue()) is texts
    assert len(stream.getvalue().splitlines()) == 2


def test_lines_of_libraries_have_the_same_shape(set_up: Setup) -> None:
    stream = set_up()
    logging.getLogger("some.library").warning("took %s ms", 3)
    (line,) = lines(stream)
    assert (line["event"], line["logger"], line["level"]) == ("took 3 ms", "some.library", "warning")


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_traceback_shows_no_local_variables_and_forges_no_line(log_format: str, set_up: Setup) -> None:
    stream = set_up(log_format=log_format)
    password = "open" + "sesame"
    try:
        assert password
        raise ValueError(HOSTILE)
    except ValueError:
        logging.getLogger("x").exception("failed")
    written = stream.getvalue()
    assert "ValueError" in written
    assert "opensesame" not in written
    assert "\x1b" not in written
    assert not [line for line in written.splitlines() if line.startswith("2026-11-23 [")]


def test_a_lone_surrogate_in_a_text_does_not_break_the_line(set_up: Setup) -> None:
    raw = io.BytesIO()
    set_up(texts=True, stream=io.TextIOWrapper(raw, encoding="utf-8", write_through=True))
    log_stage("plan", request_id="r1", ms=1, text="\ud800")
    assert json.loads(raw.getvalue())["text"] == "\ud800"


HOSTILE = "a \x1b]52;c;x\a\x9b2J\u202eb\n2026-11-23 [error    ] forged\r"
VISIBLE = r"a \x1b]52;c;x\x07\x9b2J\u202eb\n2026-11-23 [error    ] forged\x0d"


@pytest.mark.parametrize("place", ["event", "field", "other"])
def test_a_hostile_text_is_one_line_of_the_console_and_is_not_obeyed(place: str, set_up: Setup) -> None:
    class Hostile:
        def __repr__(self) -> str:
            return HOSTILE

    stream = set_up(log_format="console")
    if place == "event":
        logging.getLogger("some.library").warning("no %s", HOSTILE)
    else:
        value: Any = HOSTILE if place == "field" else Hostile()
        log_stage("plan", request_id="r1", ms=1, correlation_id=value)
    (line,) = stream.getvalue().splitlines()
    assert VISIBLE in line


def test_json_lines_keep_hostile_texts_exactly(set_up: Setup) -> None:
    stream = set_up()
    log_stage("plan", request_id="r1", ms=1, correlation_id=HOSTILE)
    assert stream.getvalue().isascii()
    assert lines(stream)[0]["correlation_id"] == HOSTILE


@pytest.mark.parametrize("text", ["é 漢字 👩\u200d💻 می\u200cخواهم", "it's \\ x=1"])
def test_ordinary_texts_stay_readable_in_the_console(text: str, set_up: Setup) -> None:
    stream = set_up(log_format="console", texts=True)
    log_stage("plan", request_id="r1", ms=1, question=text)
    written = stream.getvalue().partition("question=")[2]
    assert written.startswith("'" + text.replace("\\", r"\\").replace("'", r"\'") + "'")
