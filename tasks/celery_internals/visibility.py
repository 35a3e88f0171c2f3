"""Messages that a worker has taken from a Redis queue and not acknowledged: its own while it lives, then others'.

- A worker records each message that it takes, so that others can take it later.  Recording, acknowledging and putting
  back work although Redis is full.  When Redis is full, kombu cannot record the message it has just popped, and the
  message is lost.
- A thread renews the record as long as the process runs, whatever the task does.  Other workers take a message
  `visibility_timeout` seconds after its last renewal: its process died or is stopped.  Times are by the clock of Redis.

A worker that is killed between popping a message and recording it has lost the message.

Without `ack_emulation`, and with RabbitMQ, nothing of this is used.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from chorale_client.scripts import Scripts
from kombu.transport import redis
from kombu.utils.json import dumps, loads
from redis.exceptions import RedisError, ResponseError

from ledger import ledger_scripts

KOMBU = "_kombu."
BINDINGS = f"{KOMBU}binding"
"""An exchange's queues."""

RENEWALS = 3
"""Renewals in one `visibility_timeout`: one or two may fail."""


class _Pushes:
    """Collects what kombu would push in a transaction."""

    def __init__(self) -> None:
        self.queues: list[str] = []
        self.texts: list[str] = []

    def push(self, queue: str, text: str) -> None:
        self.queues.append(queue)
        self.texts.append(text)

    lpush = rpush = push


class QoS(redis.QoS):
    """The unacknowledged messages of one channel; a thread renews them from the first message on."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]  # kombu has few
        self._renewing: threading.Thread | None = None
        self._scripts: Scripts | None = None

    def append(self, message: Any, delivery_tag: str) -> None:
        whence = message.delivery_info
        text = dumps([message._raw, whence["exchange"], whence["routing_key"]])
        self._run("record_unacked", [delivery_tag, text])
        # What kombu's `append` does besides recording.
        super(redis.QoS, self).append(message, delivery_tag)  # type: ignore[no-untyped-call]
        if self._renewing is None:
            self._renewing = threading.Thread(target=self._renew, name="messages-in-hand", daemon=True)
            self._renewing.start()

    def ack(self, delivery_tag: str) -> None:
        try:
            self._run("forget_unacked", [delivery_tag])
        except (RedisError, OSError) as error:
            # kombu logs it and goes on: a worker that may have no further message would wait for this one for ever.
            self.channel.connection.lost = error
            raise
        super(redis.QoS, self).ack(delivery_tag)  # type: ignore[no-untyped-call]

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        # If Redis refuses, the record stays, and another worker takes the message; an error would end this worker.
        with suppress(ResponseError):
            if requeue:
                self.restore_by_tag(delivery_tag, leftmost=True)
            else:
                self._run("forget_unacked", [delivery_tag])
        super(redis.QoS, self).ack(delivery_tag)  # type: ignore[no-untyped-call]

    def restore_visible(self, *_: Any, **__: Any) -> None:
        for tag in self._run("overdue_unacked", [self.visibility_timeout]):
            self.restore_by_tag(tag)

    def restore_by_tag(self, tag: str | bytes, client: Any = None, leftmost: bool = False) -> None:
        pushes = _Pushes()
        with self.channel.conn_or_acquire(client) as client:
            noted = client.hget(self.unacked_key, tag)
        if noted:
            self.channel._do_restore_message(*loads(noted), pushes)
        self._run("put_back_unacked", [tag, "LPUSH" if leftmost else "RPUSH", *pushes.texts], pushes.queues)

    def _run(self, script: str, arguments: Iterable[Any], queues: Sequence[str] = ()) -> Any:
        keys = (self.unacked_index_key, self.unacked_key, *queues)
        with self.channel.conn_or_acquire() as client:
            if self._scripts is None:
                self._scripts = ledger_scripts(client)
            return self._scripts.run(script, keys, list(arguments), client=client)

    def _renew(self) -> None:
        while not self.channel.closed:
            time.sleep(self.visibility_timeout / RENEWALS)
            # `_dirty` are those that were acknowledged or rejected.
            if tags := set(self._delivered) - self._dirty:
                with suppress(RedisError, OSError):
                    self._run("renew_unacked", tags)
