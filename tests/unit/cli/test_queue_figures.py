"""What waits on each queue, over HTTP: what scales workers reads these numbers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

import httpx
import pytest

from cli.queue_figures import figures_server
from tasks.queues import QueueState


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


def test_length_and_age_of_a_queue(address: str) -> None:
    assert httpx.get(f"{address}/chorale.bm25").json() == {"length": 3, "age_s": 0.422}


@pytest.mark.parametrize("queue", ["chorale.index", "chorale.hyde"])
def test_a_queue_that_is_empty_or_not_declared_yet_asks_for_no_worker(address: str, queue: str) -> None:
    assert httpx.get(f"{address}/{queue}").json() == {"length": 0, "age_s": 0.0}


def test_a_queue_that_there_is_not_is_an_error_and_no_zero(address: str) -> None:
    assert httpx.get(f"{address}/chorale.bm26").status_code == 404


def test_a_broker_that_is_away_is_an_error_that_shows_no_login(
    address: str, states: dict[str, QueueState]
) -> None:
    states.clear()
    said = httpx.get(f"{address}/chorale.bm25")
    assert said.status_code == 503
    assert "secret" not in said.text
