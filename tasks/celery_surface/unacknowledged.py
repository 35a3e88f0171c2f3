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

from kombu.transport import redis
from kombu.utils.json import dumps, loads
from redis.exceptions import RedisError, ResponseError

RENEWALS = 3
"""Renewals in one `visibility_timeout`: one or two may fail."""

_NOTE = """
-- KEYS  times by message, messages     ARGV  message's tag, message
-- A deletion stands first: Redis refuses writes over `maxmemory` only to a script that has not written yet.
redis.call('ZREM', KEYS[1], ARGV[1])
local now = redis.call('TIME')
redis.call('ZADD', KEYS[1], now[1] + now[2] / 1000000, ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
"""

_RENEW = """
-- KEYS  times by message, messages     ARGV  messages' tags
redis.call('ZREM', KEYS[1], '')
local now = redis.call('TIME')
-- Acknowledged ones stand there no more, and must not stand there again.
for _, tag in ipairs(ARGV) do redis.call('ZADD', KEYS[1], 'XX', now[1] + now[2] / 1000000, tag) end
"""

_OVERDUE = """
-- KEYS  times by message, messages     ARGV  others' after (s)
-- ->    tags, the oldest last: what is put back last is taken first
local now = redis.call('TIME')
return redis.call('ZREVRANGEBYSCORE', KEYS[1], now[1] + now[2] / 1000000 - ARGV[1], '-inf')
"""

_FORGET = """
-- In a script, since Redis over `maxmemory` takes no transaction, not even one of deletions.
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
"""

_PUT_BACK = """
-- KEYS  times by message, messages, queues     ARGV  message's tag, LPUSH or RPUSH, message for each queue
redis.call('ZREM', KEYS[1], ARGV[1])
-- Once, though several find it overdue.
if redis.call('HDEL', KEYS[2], ARGV[1]) == 0 then return end
for i = 3, #KEYS do redis.call(ARGV[2], KEYS[i], ARGV[i]) end
"""


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

    def append(self, message: Any, delivery_tag: str) -> None:
        whence = message.delivery_info
        text = dumps([message._raw, whence["exchange"], whence["routing_key"]])
        self._run(_NOTE, [delivery_tag, text])
        # What kombu's `append` does besides recording.
        super(redis.QoS, self).append(message, delivery_tag)  # type: ignore[no-untyped-call]
        if self._renewing is None:
            self._renewing = threading.Thread(target=self._renew, name="messages-in-hand", daemon=True)
            self._renewing.start()

    def ack(self, delivery_tag: str) -> None:
        self._run(_FORGET, [delivery_tag])
        super(redis.QoS, self).ack(delivery_tag)  # type: ignore[no-untyped-call]

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        # If Redis refuses, the record stays, and another worker takes the message; an error would end this worker.
        with suppress(ResponseError):
            if requeue:
                self.restore_by_tag(delivery_tag, leftmost=True)
            else:
                self._run(_FORGET, [delivery_tag])
        super(redis.QoS, self).ack(delivery_tag)  # type: ignore[no-untyped-call]

    def restore_visible(self, *_: Any, **__: Any) -> None:
        for tag in self._run(_OVERDUE, [self.visibility_timeout]):
            self.restore_by_tag(tag)

    def restore_by_tag(self, tag: str | bytes, client: Any = None, leftmost: bool = False) -> None:
        pushes = _Pushes()
        with self.channel.conn_or_acquire(client) as client:
            noted = client.hget(self.unacked_key, tag)
        if noted:
            self.channel._do_restore_message(*loads(noted), pushes)
        self._run(_PUT_BACK, [tag, "LPUSH" if leftmost else "RPUSH", *pushes.texts], pushes.queues)

    def _run(self, script: str, arguments: Iterable[Any], queues: Sequence[str] = ()) -> Any:
        keys = (self.unacked_index_key, self.unacked_key, *queues)
        with self.channel.conn_or_acquire() as client:
            return client.eval(script, len(keys), *keys, *arguments)

    def _renew(self) -> None:
        while not self.channel.closed:
            time.sleep(self.visibility_timeout / RENEWALS)
            # `_dirty` are those that were acknowledged or rejected.
            if tags := set(self._delivered) - self._dirty:
                with suppress(RedisError, OSError):
                    self._run(_RENEW, tags)
