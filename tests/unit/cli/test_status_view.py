"""How `chorale status` shows what is not asked at present."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rich.console import Console

from cli.commands.status import breaker_fields, view
from ledger.breakers import Breaker


def shown(
    *breakers: Breaker,
    refusing_for_ms: int | None = None,
    waiting: int = 0,
    refused: int = 0,
    aside: Mapping[str, str] = MappingProxyType({}),
) -> str:
    status = {
        "home": "/home/here",
        "redis": {"address": "redis://localhost", "version": "7.0"},
        "workers": [],
        "queues": [],
        "breakers": [breaker_fields(one, 100_000) for one in breakers],
        "refusing_for_s": None if refusing_for_ms is None else refusing_for_ms / 1000,
        "requests_in_flight": 0,
        "outbox": {"entries": waiting, "oldest_s": 8.0, "limit": 10_000, "refused": refused, "unreadable": 0},
        "quarantine": {"entries": len(aside), "first": aside},
        "chords": "lean",
        "namespaces": [],
        "adapting": [],
    }
    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        for part in view(status):
            console.print(part)
    return capture.get()


def test_a_breaker_is_shown_with_its_times_and_its_reason_or_whether_its_probe_runs() -> None:
    opened = shown(Breaker("vector", 88_000, 103_500, False, 5, "timeout"))
    (line,) = (line.split() for line in opened.splitlines() if line.startswith("vector"))
    assert " ".join(line) == "vector open 12 s ago in 3.5 s 5 timeout"
    half = Breaker("store:local", 88_000, 99_000, False, 5, "unavailable")
    assert all(words in shown(half) for words in ("half open", "by the next request"))
    assert "at this moment" in shown(Breaker("store:local", 88_000, 99_000, True, 5, "unavailable"))


def test_the_status_counts_what_waits_and_what_is_refused() -> None:
    text = shown(waiting=10_000, refused=17, refusing_for_ms=2_500)
    for figure in ("10,000 waiting, the oldest for 8.0 s", "17 requests were refused", "for about 2.5 s"):
        assert figure in text


def test_the_status_shows_what_was_set_aside_and_why() -> None:
    assert "set aside" not in shown()
    text = shown(aside={"'a\x1b]0;x'": "not an id"})
    assert "set aside 1 malformed entries, now deleted · 'a\\x1b]0;x': not an id\n" in text
