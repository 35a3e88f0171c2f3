"""What a worker has taken from a queue in Redis and not acknowledged is its own while it lives, and lost to nobody.

- It is noted for others, and acknowledged, though Redis is full: kombu's own note would be refused then, and the message
  be gone, which no longer stood in its queue.  The room that it takes is what it left there.
- It is renewed as long as the process runs, whatever the task does meanwhile.  Others take it `visibility_timeout`
  seconds after that was last done: of a process that died, or is held still.

Without `ack_emulation`, and with RabbitMQ, nothing of this is used.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

from kombu.transport import redis
from kombu.utils.json import dumps
from redis.exceptions import RedisError

RENEWALS = 3
"""In the time after which others would take it: one or two may fail."""

_NOTE = """
-- KEYS  times by message, messages     ARGV  message's tag, now (s), message
-- A deletion stands first: Redis refuses writes over `maxmemory` only to a script that has not written yet.
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
"""

_FORGET = """
-- In a script, since Redis over `maxmemory` takes no transaction, not even one of deletions.
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
"""


class QoS(redis.QoS):
    """Of one channel, which has a thread once it has a message."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]  # kombu has few
        self._renewing: threading.Thread | None = None

    def append(self, message: Any, delivery_tag: str) -> None:
        whence = message.delivery_info
        text = dumps([message._raw, whence["exchange"], whence["routing_key"]])
        self._run(_NOTE, delivery_tag, time.time(), text)
        # What kombu's own does beside its note.
        super(redis.QoS, self).append(message, delivery_tag)  # type: ignore[no-untyped-call]
        if self._renewing is None:
            self._renewing = threading.Thread(target=self._renew, name="messages-in-hand", daemon=True)
            self._renewing.start()

    def ack(self, delivery_tag: str) -> None:
        self._run(_FORGET, delivery_tag)
        super(redis.QoS, self).ack(delivery_tag)  # type: ignore[no-untyped-call]

    def _run(self, script: str, *arguments: Any) -> None:
        with self.channel.conn_or_acquire() as client:
            client.eval(script, 2, self.unacked_index_key, self.unacked_key, *arguments)

    def _renew(self) -> None:
        while not self.channel.closed:
            time.sleep(self.visibility_timeout / RENEWALS)
            if tags := list(self._delivered):
                # Acknowledged ones stand there no more, and must not stand there again.
                with suppress(RedisError, OSError), self.channel.conn_or_acquire() as client:
                    client.zadd(self.unacked_index_key, dict.fromkeys(tags, time.time()), xx=True)
