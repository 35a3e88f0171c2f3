"""The product's own path: planned in the caller's process, and awaited as the client does."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from celery import Celery
from chorale_client.answer import Answer
from chorale_client.keys import result_key
from chorale_client.replies import read_answer
from chorale_client.request_factory import make_request
from redis.client import PubSub

from bench.timing import complete
from tasks.request.fanout import Fanout
from tasks.request.retrieve import submit
from wiring.resources import Resources


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
        return complete(text, read_answer(result) if result else None)

    def _channel(self) -> PubSub:
        if not hasattr(self._local, "channel"):
            self._local.channel = self._resources.redis.pubsub(ignore_subscribe_messages=True)
        channel: PubSub = self._local.channel
        return channel
