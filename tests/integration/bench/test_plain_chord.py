"""The plain chord that `python -m tests.bench latency` measures, where nobody answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from celery.backends.asynchronous import E_RETRY_LIMIT_EXCEEDED

from config.settings import Settings
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.bench import plain_chord
from tests.bench.plain_chord import PlainChord
from tests.bench.timing import Hung
from tests.support.servers.redis_server import RedisServer


@pytest.fixture
def chord(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlainChord]:
    apps: list[Celery] = []
    make_app = plain_chord.make_app

    def make_and_keep(resources: Resources) -> Celery:
        apps.append(make_app(resources))
        return apps[-1]

    monkeypatch.setattr(plain_chord, "make_app", make_and_keep)
    monkeypatch.setattr(Resources, "fingerprints", {"embedder": "none"})
    resources = Resources(Settings(embedder="none"), load_pipeline(), redis_server.url)
    yield PlainChord(resources, {"timeout_s": 0.1})
    for app in apps:
        # Celery keeps results that timed out.  Each would unsubscribe when it is collected: in a later test, on a
        # connection that it opens for that and leaves open, or for seconds if the server is gone.
        app.backend.result_consumer.subscribed_to.clear()
        app.backend.result_consumer.stop()
        app.backend.client.connection_pool.disconnect()


def test_a_chord_that_no_worker_answers_hangs(chord: PlainChord) -> None:
    with pytest.raises(Hung, match="timed out"):
        chord.ask("bread")


def test_after_a_lost_result_backend_the_next_chord_has_a_new_app_and_any_other_error_is_raised(
    chord: PlainChord, monkeypatch: pytest.MonkeyPatch
) -> None:
    apps: list[Any] = []
    errors = [E_RETRY_LIMIT_EXCEEDED, E_RETRY_LIMIT_EXCEEDED, "a defect"]

    def fails(app: Any, *_: object) -> None:
        apps.append(app)
        raise RuntimeError(errors.pop(0))

    monkeypatch.setattr(plain_chord, "_answer", fails)
    for _ in range(2):
        with pytest.raises(Hung, match="Retry limit exceeded"):
            chord.ask("bread")
    assert apps[0] is not apps[1]
    with pytest.raises(RuntimeError, match="a defect"):
        chord.ask("bread")
