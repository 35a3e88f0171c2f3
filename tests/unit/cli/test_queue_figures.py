"""What waits on each queue, over HTTP: what scales workers reads these numbers."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

import cli.queue_figures
from cli.queue_figures import Watch, figures_app
from monitoring.queues import QueueState
from tests.support.waiting import until

NOTHING = {"length": 0, "age_s": 0.0}


@pytest.fixture
def states() -> dict[str, QueueState]:
    return {
        "chorale.bm25": QueueState(3, 0.4217, oldest="x"),
        "chorale.index": QueueState(0),
        "chorale.hyde": QueueState(None),
    }


def test_the_server_reports_length_and_age_and_an_unknown_queue_is_an_error(
    states: dict[str, QueueState],
) -> None:
    server = TestClient(figures_app(lambda: states))
    lengths = {"bm25": {"length": 3, "age_s": 0.422}, "index": NOTHING, "hyde": NOTHING}
    assert {name: server.get(f"/chorale.{name}").json() for name in lengths} == lengths
    assert server.get("/chorale.bm26").status_code == 404


def test_a_broker_that_is_away_is_an_error() -> None:
    assert TestClient(figures_app(lambda: None)).get("/chorale.bm25").status_code == 503


class Broker:
    """A look that ends when it is let, or as it is told to."""

    def __init__(self) -> None:
        self.opened = self.closed = 0
        self.answers = threading.Event()
        self.answers.set()
        self.failure: Exception | None = None

    def open(self) -> Broker:
        self.opened += 1
        return self

    def states(self) -> dict[str, QueueState]:
        assert self.answers.wait(30)
        if self.failure is not None:
            raise self.failure
        return {"chorale.bm25": QueueState(1)}

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Broker, Watch]]:
    monkeypatch.setattr(cli.queue_figures, "TICK_EVERY_S", 0.01)
    broker, stop = Broker(), threading.Event()
    watch = Watch(broker.open)
    thread = threading.Thread(target=watch.run, args=(stop,))
    thread.start()
    yield broker, watch
    stop.set()
    broker.answers.set()
    thread.join()


def test_a_hung_broker_delays_no_request_and_old_figures_are_not_served(
    watched: tuple[Broker, Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, watch = watched
    until(watch.figures)
    broker.answers.clear()
    assert watch.figures() == {"chorale.bm25": QueueState(1)}
    monkeypatch.setattr(cli.queue_figures, "OLD_S", 0.05)
    until(lambda: watch.figures() is None)
    broker.answers.set()
    until(watch.figures)


def test_a_broker_that_was_away_is_opened_anew_and_its_error_is_not_served(
    watched: tuple[Broker, Watch],
) -> None:
    broker, watch = watched
    until(watch.figures)
    broker.failure = ConnectionResetError("gone")
    until(lambda: watch.figures() is None)
    broker.failure = None
    until(watch.figures)
    assert broker.opened > 1
    assert broker.closed == broker.opened - 1
