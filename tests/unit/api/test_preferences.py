"""`Prefer`: what is applied, what is ignored, and that no header keeps the process busy."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request

from api.headers import Preferences, preferences


def read(*lines: str) -> Preferences:
    headers = [(b"prefer", line.encode("latin-1")) for line in lines]
    return asyncio.run(preferences(Request({"type": "http", "headers": headers})))


@pytest.mark.parametrize(
    ("line", "wait_s", "applied"),
    [
        ("wait=3", 3, "wait=3"),
        ('WAIT = "3"', 3, "wait=3"),
        ("wait=99999", 60, "wait=60"),
        ("wait=3; strictly, wait=4", 3, "wait=3"),
        ("respond-async", 0, "respond-async"),
        ("respond-async, wait=2", 2, "respond-async, wait=2"),
        ('reason="a, wait=5", wait=1', 1, "wait=1"),
        (r'reason="a \", wait=5", wait=1', 1, "wait=1"),
        ('reason="never ends, wait=5', None, None),
        ("wait=-1", None, None),
        ("wait=3.5", None, None),
        ("waiting=3", None, None),
        ("", None, None),
    ],
)
def test_the_first_preference_of_a_name_is_applied_and_an_unreadable_one_is_ignored(
    line: str, wait_s: float | None, applied: str | None
) -> None:
    assert read(line) == Preferences(wait_s, applied)


def test_preferences_may_come_in_several_lines() -> None:
    assert read("handling=lenient", "respond-async", "wait=7") == Preferences(7, "respond-async, wait=7")


@pytest.mark.parametrize("piece", ["a", "a=", 'a="', '"', '\\"', "a;", ",", " ", 'a="\\'])
def test_a_line_of_a_megabyte_is_read_in_its_length(piece: str) -> None:
    """A reader that takes the square of the length would exceed the time limit of a test."""
    assert read(piece * (1_000_000 // len(piece))) == Preferences()
