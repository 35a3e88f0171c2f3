"""The plain chord that `chorale bench latency` measures, where nobody answers."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from celery.backends.asynchronous import E_RETRY_LIMIT_EXCEEDED

from assembly.pipeline import load_pipeline
from assembly.resources import Resources
from bench import plain_chord
from bench.plain_chord import PlainChord
from bench.timing import Hung
from config.settings import Settings
from tests.support.servers.redis_server import RedisServer


@pytest.fixture
def chord(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlainChord]:
    monkeypatch.setattr(Resources, "fingerprints", {"embedder": "none"})
    resources = Resources(Settings(embedder="none"), load_pipeline(), redis_server.url)
    yield PlainChord(resources, {"timeout_s": 0.1})
    # Celery's results unsubscribe when they are collected, and without a server each tries for seconds.
    gc.collect()


def test_a_chord_that_no_worker_answers_hangs(chord: PlainChord) -> None:
    with pytest.raises(Hung, match="timed out"):
        chord.ask("bread")


def test_after_a_lost_result_backend_the_next_chord_has_a_new_app(
    chord: PlainChord, monkeypatch: pytest.MonkeyPatch
) -> None:
    apps: list[Any] = []

    def lost(app: Any, *_: object) -> None:
        apps.append(app)
        raise RuntimeError(E_RETRY_LIMIT_EXCEEDED)

    monkeypatch.setattr(plain_chord, "_answer", lost)
    for _ in range(2):
        with pytest.raises(Hung, match="Retry limit exceeded"):
            chord.ask("bread")
    assert apps[0] is not apps[1]


def test_any_other_error_is_not_taken_for_a_hang(chord: PlainChord, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(plain_chord, "_answer", fails)
    with pytest.raises(RuntimeError, match="a defect"):
        chord.ask("bread")
