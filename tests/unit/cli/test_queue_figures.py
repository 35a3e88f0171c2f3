"""What waits on each queue, over HTTP: what scales workers reads these numbers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

import httpx
import pytest

import cli.queue_figures
from cli.queue_figures import Watch, figures_server
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


@pytest.fixture
def address(states: dict[str, QueueState]) -> Iterator[str]:
    def look() -> Mapping[str, QueueState]:
        if not states:
            raise ConnectionError("redis://worker:secret@nowhere")
        return states

    with figures_server(look, ("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_the_server_reports_length_and_age_and_an_unknown_queue_is_an_error(address: str) -> None:
    lengths = {"bm25": {"length": 3, "age_s": 0.422}, "index": NOTHING, "hyde": NOTHING}
    assert {name: httpx.get(f"{address}/chorale.{name}", timeout=30).json() for name in lengths} == lengths
    assert httpx.get(f"{address}/chorale.bm26", timeout=30).status_code == 404


def test_a_broker_that_is_away_is_an_error_that_shows_no_login(
    address: str, states: dict[str, QueueState]
) -> None:
    states.clear()
    response = httpx.get(f"{address}/chorale.bm25", timeout=30)
    assert (response.status_code, "secret" in response.text) == (503, False)


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
    monkeypatch.setattr(cli.queue_figures, "LOOK_EVERY_S", 0.01)
    broker, stop = Broker(), threading.Event()
    watch = Watch(broker.open)
    thread = threading.Thread(target=watch.run, args=(stop,))
    thread.start()
    yield broker, watch
    stop.set()
    broker.answers.set()
    thread.join()


def kind_of_failure(watch: Watch) -> type[Exception] | None:
    try:
        watch()
    except Exception as error:
        return type(error)
    return None


def test_a_hung_broker_delays_no_request_and_old_figures_are_not_served(
    watched: tuple[Broker, Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, watch = watched
    until(lambda: kind_of_failure(watch) is None)
    broker.answers.clear()
    assert watch()["chorale.bm25"].length == 1
    monkeypatch.setattr(cli.queue_figures, "OLD_S", 0.05)
    until(lambda: kind_of_failure(watch) is TimeoutError)
    broker.answers.set()
    until(lambda: kind_of_failure(watch) is None)


def test_a_broker_that_was_away_is_opened_anew(watched: tuple[Broker, Watch]) -> None:
    broker, watch = watched
    until(lambda: kind_of_failure(watch) is None)
    broker.failure = ConnectionResetError("gone")
    until(lambda: kind_of_failure(watch) is ConnectionResetError)
    broker.failure = None
    until(lambda: kind_of_failure(watch) is None)
    assert broker.opened > 1
    assert broker.closed == broker.opened - 1
