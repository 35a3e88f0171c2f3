"""However messages to index are interrupted, each passage is embedded about once, and all messages end."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from celery.exceptions import Reject
from chorale_client.index_tickets import Indexed
from chorale_client.keys import INDEXED
from pydantic_core import from_json
from redis import Redis

from config.settings import Settings
from models.documents import Matrix
from tasks.indexing import embedding_prefetch, index_tasks
from tasks.indexing.handed_in_documents import Unfinished, UnfinishedMessages, index_handed_in
from tasks.indexing.index_tasks import IndexMessage
from tasks.indexing.indexing_run import IndexReport
from tasks.indexing.message_order import TURN_ALONE_S, TURN_S, TurnOver, Turns
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.support.faults.refusals import read_only
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.models.used_embedder import use_embedder
from tests.support.servers.redis_server import RedisServer

EMBED_S = 0.4
"""The time that the slow embedder takes for up to 4 passages."""
DOCUMENTS = 20


class Clocked(HashingEmbedder):
    """Takes its time by a clock in the test's hand."""

    now_s = 0.0

    def embed_passages(self, texts: Sequence[str], **options: Any) -> Matrix:
        self.now_s += EMBED_S
        return super().embed_passages(texts, **options)


class Workers:
    """Index workers with one queue, of whom one works at a time.  Messages are dicts of `ticket`, `namespace`, `documents`."""

    def __init__(self, resources: Resources, embedder: Clocked, count: int = 1) -> None:
        self.resources, self.embedder = resources, embedder
        self.queue: deque[dict[str, Any]] = deque()
        self.turns = [self.fresh_turns() for _ in range(count)]
        self.unfinished: list[dict[str, Unfinished]] = [{} for _ in range(count)]
        self.ended: dict[str, Indexed] = {}

    def fresh_turns(self) -> Turns:
        return Turns(self.turn_s, clock=lambda: self.embedder.now_s)

    def turn_s(self, namespace: str) -> float:
        if not self.queue:
            return math.inf
        is_alone = all(message["namespace"] == namespace for message in self.queue)
        return TURN_ALONE_S if is_alone else TURN_S

    def send(self, ticket: str, namespace: str, texts: Sequence[str]) -> None:
        documents = [{"id": f"{ticket}-{number}", "text": text} for number, text in enumerate(texts)]
        self.queue.append({"ticket": ticket, "namespace": namespace, "documents": documents})

    def step(self, number: int) -> None:
        """The worker with this number takes one message."""
        message, turns = self.queue.popleft(), self.turns[number]
        messages = UnfinishedMessages(self.unfinished[number])
        ticket, namespace = message["ticket"], message["namespace"]
        if not turns.is_on(namespace, ticket):
            self.queue.append(message)
            return
        unfinished = messages.take(ticket, message.get("so_far"))
        try:
            with turns.working(namespace, ticket):
                report = index_handed_in(
                    self.resources,
                    unfinished,
                    None,
                    message["documents"],
                    namespace=namespace,
                    source="task",
                    is_over=lambda: turns.is_over(namespace),
                    has_capacity=messages.has_capacity,
                )
        except TurnOver:
            messages.keep(ticket, unfinished)
            self.queue.append({**message, "so_far": unfinished.to_wire()})
        else:
            assert ticket not in self.ended
            self.ended[ticket] = Indexed.from_wire(
                {"v": 1, "namespace": namespace, "handed_in": 1, **report.to_wire()}
            )

    def run(self, most_steps: int = 2_000) -> None:
        for number in range(most_steps):
            if not self.queue:
                return
            self.step(number % len(self.turns))
        raise AssertionError(f"{len(self.ended)} messages ended in {most_steps} steps")


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> Clocked:
    """All sizes are a quarter of the usual ones."""
    monkeypatch.setattr(embedding_prefetch, "PASSAGES_AT_ONCE", 4)
    monkeypatch.setattr(embedding_prefetch, "WINDOW_PASSAGES", 16)
    return Clocked()


@pytest.fixture
def resources(tmp_path: Path, embedder: Clocked) -> Resources:
    resources = Resources(Settings(home=tmp_path), load_pipeline(None), "redis://127.0.0.1:1/0")
    use_embedder(resources, embedder)
    return resources


def many_small(ticket: str) -> list[str]:
    """Two seconds of work: documents of a passage each."""
    return [f"{ticket} {number} is cut in spring" for number in range(DOCUMENTS)]


@pytest.mark.parametrize(
    ("namespaces", "workers"),
    [(3, 2), pytest.param(1, 1, marks=pytest.mark.slow)],
)
def test_more_slow_messages_than_a_worker_keeps_end_and_each_passage_is_embedded_about_once(
    resources: Resources, embedder: Clocked, workers: int, namespaces: int
) -> None:
    running = Workers(resources, embedder, workers)
    for number in range(7):
        running.send(f"m{number}", f"garden{number % namespaces}", many_small(f"m{number}"))
    running.run()
    assert {ticket: indexed.added for ticket, indexed in running.ended.items()} == {
        f"m{number}": DOCUMENTS for number in range(7)
    }
    assert len(embedder.embedded) <= 1.2 * 7 * DOCUMENTS


@pytest.mark.slow
def test_a_long_document_in_each_of_many_namespaces_ends(resources: Resources, embedder: Clocked) -> None:
    # More namespaces than a worker keeps interrupted documents of.
    running = Workers(resources, embedder)
    for number in range(7):
        text = "\n\n".join(f"{number}.{line} " * 180 for line in range(20))
        running.send(f"book{number}", f"garden{number}", [text])
    running.run()
    assert [indexed.added for indexed in running.ended.values()] == [1] * 7
    assert len(embedder.embedded) == len(set(embedder.embedded)) >= 7 * 20


def test_a_killed_worker_costs_the_work_of_a_turn_at_most(resources: Resources, embedder: Clocked) -> None:
    running = Workers(resources, embedder)
    for number in range(6):
        running.send(f"m{number}", f"garden{number % 2}", many_small(f"m{number}"))
    for kill in range(2):
        running.step(0)
        # What a worker knows ends with it; its message is delivered again as it was sent.
        running.turns[0], running.unfinished[0] = running.fresh_turns(), {}
        running.queue[-1].pop("so_far", None)
        assert not running.ended, kill
    running.run()
    assert {indexed.added + indexed.unchanged for indexed in running.ended.values()} == {DOCUMENTS}
    assert len(embedder.embedded) <= 1.2 * 6 * DOCUMENTS


def test_an_outcome_that_redis_refuses_is_recorded_when_redis_takes_writes_again(
    redis_server: RedisServer, redis_client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_tasks, "PAUSE_S", 0.05)
    message = message_of(redis_client, "handed-in.1")
    with ThreadPoolExecutor() as workers, ExitStack() as refusal:
        refusal.enter_context(read_only(redis_server))
        done = workers.submit(message.done, IndexReport(added=1))
        time.sleep(0.2)
        assert not done.done()
        refusal.close()
        done.result(10)
    assert from_json(cast("bytes", redis_client.get(INDEXED + "handed-in.1")))["added"] == 1


def test_a_message_whose_outcome_redis_refuses_for_long_is_delivered_again(
    redis_server: RedisServer, redis_client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_tasks, "PATIENCE_S", 0.0)
    message = message_of(redis_client, "handed-in.1")
    with read_only(redis_server), pytest.raises(Reject) as rejected:
        message.done(IndexReport(added=1))
    assert rejected.value.requeue


def message_of(redis: Redis, ticket: str) -> IndexMessage:
    app = SimpleNamespace(resources=SimpleNamespace(redis=redis))
    return IndexMessage(SimpleNamespace(app=app, request=SimpleNamespace(id=ticket)), "docs", handed_in=1)
