"""The ledger in Redis with a clock that only the test moves: times are exact, and nothing sleeps.

The scripts run unchanged after a prelude whose `now_ms` is the test's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from chorale_client.keys import CACHE, COALESCING, ENTRY, GENERATION, OUTBOX, OVERLOAD, WAKEUPS, entry_key
from chorale_client.ledger import CallersLedger
from chorale_client.protocol_constants import PROTOCOL, ProtocolConstants
from chorale_client.scripts import prelude
from redis import Redis

from ledger.backlog import publish_outbox_limit, read_outbox_bound
from ledger.protocol import Entry
from ledger.redis import _entry
from tests.support.ledger.single_steps import SingleSteps

BEGIN_MS = 1_790_000_000_000

NOW, EXPIRIES = "stepped:now", "stepped:expiries"
ANSWER = CACHE + "an answer"

THE_SERVERS_CLOCK = """local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
"""
THE_TESTS_CLOCK = f"""
local NOW, EXPIRIES, server = '{NOW}', '{EXPIRIES}', redis
local function now_ms() return tonumber(server.call('GET', NOW)) end
"""
# The server's clock would expire a key, so that its expiry is noted instead.
NOTED_EXPIRIES = """
local function expire_in(key, ms) server.call('ZADD', EXPIRIES, now_ms() + ms, key) end
local redis = { call = function(command, key, ...)
  if command == 'PEXPIRE' then return expire_in(key, ...) end
  if command == 'PTTL' then return (server.call('ZSCORE', EXPIRIES, key) or now_ms() - 1) - now_ms() end
  if command == 'DEL' then server.call('ZREM', EXPIRIES, key) end
  if command ~= 'SET' then return server.call(command, key, ...) end
  local value, px, ms, nx = ...
  assert(px == 'PX')
  if nx and server.call('EXISTS', key) == 1 then return false end
  expire_in(key, ms)
  return server.call('SET', key, value)
end }
"""


def stepped_prelude(constants: ProtocolConstants = PROTOCOL) -> str:
    """Returns the product's prelude with another `now_ms`, and with expiries by that clock."""
    text = prelude(constants)
    assert text.count(THE_SERVERS_CLOCK) == 1, "the prelude reads its clock in another way"
    names, functions = text.split(THE_SERVERS_CLOCK)
    return names + THE_TESTS_CLOCK + NOTED_EXPIRIES + functions


@dataclass(frozen=True, slots=True)
class View:
    """The visible state of a ledger."""

    entries: dict[str, Entry]
    fields: list[tuple[bytes, bytes]]
    """The raw fields of every entry's hash."""
    leaders: dict[str, str]
    moments: dict[str, float]
    outbox: list[dict[bytes, bytes]]


class SteppedLedger:
    """The ledger on an empty Redis, with a clock that only the test moves."""

    def __init__(self, client: Redis, constants: ProtocolConstants = PROTOCOL) -> None:
        self.client = client
        text = stepped_prelude(constants)
        self.ledger = SingleSteps(client, prelude=text)
        self.callers = CallersLedger(client, prelude=text)
        client.set(NOW, BEGIN_MS)

    def now_ms(self) -> int:
        return int(cast(bytes, self.client.get(NOW)))

    def step(self, ms: int) -> None:
        """Moves the clock and removes expired keys."""
        now = self.client.incrby(NOW, ms)
        # The server itself keeps a key until its moment has passed.
        gone = self.client.zrangebyscore(EXPIRIES, "-inf", f"({now}")
        if gone:
            self.client.delete(*gone)
            self.client.zrem(EXPIRIES, *gone)

    def queue(self, name: str) -> list[bytes]:
        """Returns the waiting messages, the newest first."""
        return cast("list[bytes]", self.client.lrange(name, 0, -1))

    def push(self, name: str, message: bytes) -> None:
        self.client.lpush(name, message)

    def take(self, name: str) -> bytes | None:
        """Takes the message that waited longest."""
        return cast("bytes | None", self.client.rpop(name))

    def drop(self, *names: str) -> None:
        self.client.delete(*names)

    def lose(self, request_id: str) -> None:
        """Deletes only the entry of the request."""
        self.client.delete(entry_key(request_id))
        self.client.zrem(EXPIRIES, entry_key(request_id))

    def overload(self, retry_after_ms: int | None) -> None:
        """Refuses new requests from now on; None ends the refusing."""
        if retry_after_ms is None:
            self.client.delete(OVERLOAD)
        else:
            self.client.hset(OVERLOAD, "retry_after_ms", retry_after_ms)

    def know(self, generation: int | None, cached: bytes | None) -> None:
        """Sets the generation of the corpus `default`, and the cached answer ANSWER; None: there is none."""
        for key, value in ((GENERATION + "default", generation), (ANSWER, cached)):
            if value is None:
                self.client.delete(key)
            else:
                self.client.set(key, value)

    def bound_outbox(self, entries: int) -> None:
        publish_outbox_limit(self.client, entries)

    def take_outbox(self) -> None:
        """Takes the entry that waited longest, as the audit does."""
        ((entry, _),) = cast("list[tuple[bytes, object]]", self.client.xrange(OUTBOX, count=1))
        self.client.xdel(OUTBOX, entry)

    def only_counted(self) -> int:
        """Returns the number of requests that were refused because the outbox was full."""
        return read_outbox_bound(self.client).refused

    def moments(self) -> dict[str, float]:
        wakeups = cast("list[tuple[bytes, float]]", self.client.zrange(WAKEUPS, 0, -1, withscores=True))
        return {request_id.decode(): moment for request_id, moment in wakeups}

    def leaders(self) -> dict[str, str]:
        keys = cast("list[bytes]", self.client.keys(COALESCING + "*"))
        return {key.decode(): cast(bytes, self.client.get(key)).decode() for key in keys}

    def outbox(self) -> list[dict[bytes, bytes]]:
        entries = cast("list[tuple[bytes, dict[bytes, bytes]]]", self.client.xrange(OUTBOX))
        return [fields for _, fields in entries]

    def view(self) -> View:
        keys = cast("list[bytes]", self.client.keys(ENTRY + "*"))
        ids = [key.decode().removeprefix(ENTRY) for key in keys]
        with self.client.pipeline(transaction=False) as trip:
            for key in keys:
                trip.hgetall(key)
            hashes = trip.execute()
        return View(
            entries={of: _entry(of, fields) for of, fields in zip(ids, hashes, strict=True)},
            fields=[field for fields in hashes for field in fields.items()],
            leaders=self.leaders(),
            moments=self.moments(),
            outbox=self.outbox(),
        )
