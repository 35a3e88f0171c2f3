"""The four ways to answer a question that `python -m tests.bench latency` compares."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from celery import Celery
from chorale_client.answer import Answer
from chorale_client.keys import result_key
from chorale_client.request_factory import make_request
from chorale_client.sans_io import read_answer
from redis.client import PubSub

from tasks.registration import make_app
from tasks.request.fanout import Fanout
from tasks.request.retrieve import submit
from tasks.wiring.resources import Resources
from tests.bench.latency import wait_for_audit
from tests.bench.plain_chord import PlainChord, answer_in_process
from tests.bench.timing import Variant, complete


class ChordPath:
    """Sends one question in each request.  Threads may share it; each waits on a connection of its own."""

    def __init__(self, app: Celery, resources: Resources, options: Mapping[str, Any]) -> None:
        """`options` go with every request."""
        self._fanout: Fanout = app.fanout
        self._resources = resources
        self._options = options
        self._local = threading.local()

    def ask(self, text: str) -> Answer:
        """Raises Hung if the answer is not complete, or none came: its time must not be measured."""
        request = make_request(text, **self._options)
        channel, name = self._channel(), result_key(request.request_id)
        channel.subscribe(name)
        try:
            submit(self._resources, self._fanout, request)
            ledger = self._resources.callers_ledger
            result = ledger.wait(channel, request.request_id, request.timeout_s)
            result = result or ledger.result(request.request_id)
        finally:
            channel.unsubscribe(name)
        return complete(text, read_answer(request.request_id, result) if result else None)

    def _channel(self) -> PubSub:
        if not hasattr(self._local, "channel"):
            self._local.channel = self._resources.redis.pubsub()
        channel: PubSub = self._local.channel
        return channel


TIMEOUT_S = 30.0
"""Long, so that no request ends early: what is measured is how long it takes."""
IDLE_BESIDE = {"bm25": "noop_a", "vector": "noop_b", "hyde": "noop_c"}
"""The branches, each with the branch without work that its worker serves as well."""
BESIDE_WORKERS = ("sweeper", "drainer")
"""Processes of `chorale sweeper`, with `--only sweep` and `--only drain`."""
ROLES = (*IDLE_BESIDE, "fusion")
PLAIN_WORKERS = tuple(f"plain-{name}" for name in ROLES)
Layout = Mapping[str, Sequence[str]]
"""Worker processes by name, each with the branches (or `fusion`) whose queues it serves."""


def make_variants(resources: Resources, options: Mapping[str, Any], layout: Layout) -> list[Variant]:
    """`options` go with every request."""
    workers = (*layout, *BESIDE_WORKERS)
    app = make_app(resources)
    # Reranking fills its budget whatever carries the request.
    options = {**options, "timeout_s": TIMEOUT_S, "rerank": "off"}
    cached = ChordPath(app, resources, options)
    options = {**options, "cache": "bypass"}

    settle = partial(wait_for_audit, resources.redis)

    def ask_again(text: str) -> None:
        # The text differs from that of the other variants, so that no worker knows its vector already.
        cached.ask(f"{text}?")

    return [
        Variant("chord", ChordPath(app, resources, options).ask, workers, settle=settle),
        Variant("in_process", lambda text: answer_in_process(resources, make_request(text, **options))),
        Variant("plain_chord", PlainChord(resources, options).ask, PLAIN_WORKERS),
        Variant("cache", ask_again, workers, prepare=ask_again, settle=settle),
    ]
