"""Both ledgers with a clock that only the test moves: times are exact, and nothing sleeps.

The scripts run unchanged.  The text before their prelude answers `TIME` with the stepped time, and notes when keys expire
instead of letting the server's clock expire them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, cast

from chorale_client.keys import CACHE, ENTRY, FLIGHT, GENERATION, MOMENTS, OUTBOX, OVERLOAD, RESULT, entry_key
from chorale_client.ledger import CallersLedger
from chorale_client.protocol_constants import PROTOCOL, ProtocolConstants
from chorale_client.scripts import prelude
from chorale_client.words import QUEUE_FUSION
from redis import Redis

from ledger.outbox import publish_outbox_limit, read_outbox_bound
from ledger.protocol import Entry
from ledger.redis import _entry
from tests.support.ledger.ledger_interfaces import CallersSide, Ledger
from tests.support.ledger.memory_ledger import MemoryLedger
from tests.support.ledger.single_steps import SingleSteps

BEGIN_MS = 1_790_000_000_000

NOW, EXPIRIES = "stepped:now", "stepped:expiries"
ANSWER = CACHE + "an answer"

STEPPED_CLOCK = (
    f"local NOW, EXPIRIES = '{NOW}', '{EXPIRIES}'\n"
    + """
local server = redis
local function expire_in(key, ms)
  server.call('ZADD', EXPIRIES, server.call('GET', NOW) + ms, key)
end
local redis = { call = function(command, key, ...)
  if command == 'TIME' then
    local now = tonumber(server.call('GET', NOW))
    return { string.format('%d', math.floor(now / 1000)), string.format('%d', now % 1000 * 1000) }
  elseif command == 'PEXPIRE' then
    return expire_in(key, ...)
  elseif command == 'DEL' then
    server.call('ZREM', EXPIRIES, key)
  elseif command == 'SET' then
    local value, px, ms = ...
    assert(px == 'PX')
    expire_in(key, ms)
    return server.call('SET', key, value)
  end
  return server.call(command, key, ...)
end }
"""
)


@dataclass(frozen=True, slots=True)
class View:
    """The visible state of a ledger.  The outbox is sorted, since followers that end together have no order."""

    entries: dict[str, Entry]
    results: dict[str, bytes]
    flights: dict[str, str]
    queues: dict[str, list[bytes]]
    moments: dict[str, float]
    outbox: list[dict[bytes, bytes]]
    fields: list[tuple[bytes, bytes]] = field(default_factory=list, compare=False)
    """The raw fields of every entry's hash."""


class SteppedLedger(Protocol):
    @property
    def ledger(self) -> Ledger: ...
    @property
    def callers(self) -> CallersSide: ...

    def now_ms(self) -> int: ...

    def step(self, ms: int) -> None:
        """Moves the clock and removes expired values."""
        ...

    def queue(self, name: str) -> list[bytes]:
        """Returns the waiting messages, the newest first."""
        ...

    def push(self, name: str, message: bytes) -> None: ...

    def take(self, name: str) -> bytes | None:
        """Takes the message that waited longest."""
        ...

    def drop(self, *names: str) -> None:
        """Deletes the messages of these queues."""
        ...

    def lose(self, request_id: str) -> None:
        """Deletes only the entry of the request."""
        ...

    def overload(self, retry_after_ms: int | None) -> None:
        """Refuses new requests from now on; None ends the refusing."""
        ...

    def know(self, generation: int | None, cached: bytes | None) -> None:
        """Sets the generation of the corpus `default`, and the cached answer ANSWER; None: there is none."""
        ...

    def bound_outbox(self, entries: int) -> None:
        """Sets the limit of the outbox."""
        ...

    def take_outbox(self) -> None:
        """Takes the entry that waited longest, as the audit does."""
        ...

    def only_counted(self) -> int:
        """Returns the number of requests that were refused because the outbox was full."""
        ...

    def moments(self) -> dict[str, float]: ...

    def flights(self) -> dict[str, str]: ...

    def outbox(self) -> list[dict[bytes, bytes]]: ...

    def view(self) -> View: ...


class SteppedMemory:
    def __init__(self, constants: ProtocolConstants = PROTOCOL) -> None:
        self._now_ms = BEGIN_MS
        self.ledger = self.callers = MemoryLedger(clock=self.now_ms, constants=constants)

    def now_ms(self) -> int:
        return self._now_ms

    def step(self, ms: int) -> None:
        self._now_ms += ms
        self.ledger.state("anything")  # every call drops expired values

    def queue(self, name: str) -> list[bytes]:
        return list(self.ledger.queues[name])

    def push(self, name: str, message: bytes) -> None:
        self.ledger.queues[name].appendleft(message)

    def take(self, name: str) -> bytes | None:
        return self.ledger.queues[name].pop() if self.ledger.queues[name] else None

    def drop(self, *names: str) -> None:
        for name in names:
            self.ledger.queues[name].clear()

    def lose(self, request_id: str) -> None:
        self.ledger._requests.pop(request_id)

    def overload(self, retry_after_ms: int | None) -> None:
        self.ledger.retry_after_ms = retry_after_ms

    def know(self, generation: int | None, cached: bytes | None) -> None:
        self.ledger.generation = generation
        self.ledger.cached = {} if cached is None else {ANSWER: cached}

    def bound_outbox(self, entries: int) -> None:
        self.ledger.outbox.limit = entries

    def take_outbox(self) -> None:
        self.ledger.outbox.popleft()

    def only_counted(self) -> int:
        return self.ledger.outbox.refused

    def moments(self) -> dict[str, float]:
        return {request_id: float(moment) for request_id, moment in self.ledger._moments.items()}

    def flights(self) -> dict[str, str]:
        return {key: leader for key, (_, leader) in self.ledger._flights._kept.items()}

    def outbox(self) -> list[dict[bytes, bytes]]:
        return list(self.ledger.outbox)

    def view(self) -> View:
        requests, results = self.ledger._requests._kept, self.ledger._results._kept
        return View(
            entries={key: one.entry(key) for key, (_, one) in requests.items()},
            results={key: result for key, (_, (_, result)) in results.items()},
            flights=self.flights(),
            queues={name: list(waiting) for name, waiting in self.ledger.queues.items() if waiting},
            moments=self.moments(),
            outbox=sorted(self.ledger.outbox, key=_place),
        )


class SteppedRedis:
    """A Redis ledger with a stepped clock, on an empty Redis."""

    def __init__(self, client: Redis, constants: ProtocolConstants = PROTOCOL) -> None:
        self.client = client
        text = STEPPED_CLOCK + prelude(constants)
        self.ledger = SingleSteps(client, prelude=text)
        self.callers = CallersLedger(client, prelude=text)
        client.set(NOW, BEGIN_MS)

    def now_ms(self) -> int:
        return int(cast(bytes, self.client.get(NOW)))

    def step(self, ms: int) -> None:
        now = self.client.incrby(NOW, ms)
        # The server itself keeps a key until its moment has passed.
        gone = self.client.zrangebyscore(EXPIRIES, "-inf", f"({now}")
        if gone:
            self.client.delete(*gone)
            self.client.zrem(EXPIRIES, *gone)

    def queue(self, name: str) -> list[bytes]:
        return cast("list[bytes]", self.client.lrange(name, 0, -1))

    def push(self, name: str, message: bytes) -> None:
        self.client.lpush(name, message)

    def take(self, name: str) -> bytes | None:
        return cast("bytes | None", self.client.rpop(name))

    def drop(self, *names: str) -> None:
        self.client.delete(*names)

    def lose(self, request_id: str) -> None:
        self.client.delete(entry_key(request_id))
        self.client.zrem(EXPIRIES, entry_key(request_id))

    def overload(self, retry_after_ms: int | None) -> None:
        if retry_after_ms is None:
            self.client.delete(OVERLOAD)
        else:
            self.client.hset(OVERLOAD, "retry_after_ms", retry_after_ms)

    def know(self, generation: int | None, cached: bytes | None) -> None:
        for key, value in ((GENERATION + "default", generation), (ANSWER, cached)):
            if value is None:
                self.client.delete(key)
            else:
                self.client.set(key, value)

    def bound_outbox(self, entries: int) -> None:
        publish_outbox_limit(self.client, entries)

    def take_outbox(self) -> None:
        ((entry, _),) = cast("list[tuple[bytes, object]]", self.client.xrange(OUTBOX, count=1))
        self.client.xdel(OUTBOX, entry)

    def only_counted(self) -> int:
        return read_outbox_bound(self.client).refused

    def moments(self) -> dict[str, float]:
        found = cast("list[tuple[bytes, float]]", self.client.zrange(MOMENTS, 0, -1, withscores=True))
        return {request_id.decode(): moment for request_id, moment in found}

    def flights(self) -> dict[str, str]:
        keys = cast("list[bytes]", self.client.keys(FLIGHT + "*"))
        return {key.decode(): cast(bytes, self.client.get(key)).decode() for key in keys}

    def outbox(self) -> list[dict[bytes, bytes]]:
        return [
            fields for _, fields in cast("list[tuple[bytes, dict[bytes, bytes]]]", self.client.xrange(OUTBOX))
        ]

    def view(self) -> View:
        """Reads the whole state in two round trips, because tests read it often."""
        keys = {key.decode() for key in cast("list[bytes]", self.client.keys("*"))} - {NOW, EXPIRIES}
        hashes, results, flights, queues = (
            sorted(key for key in keys if key.startswith(prefix))
            for prefix in (ENTRY, RESULT, FLIGHT, ("queue.", QUEUE_FUSION))
        )
        pipe = self.client.pipeline(transaction=False)
        for key in hashes:
            pipe.hgetall(key)
        for key in (*results, *flights):
            pipe.get(key)
        for key in queues:
            pipe.lrange(key, 0, -1)
        pipe.zrange(MOMENTS, 0, -1, withscores=True)
        pipe.xrange(OUTBOX)
        *values, moments, outbox = pipe.execute()
        found = dict(zip((*hashes, *results, *flights, *queues), values, strict=True))
        ids = {key: key.removeprefix(ENTRY) for key in hashes}
        return View(
            entries={ids[key]: _entry(ids[key], found[key]) for key in hashes},
            results={key.removeprefix(RESULT): found[key] for key in results},
            flights={key: found[key].decode() for key in flights},
            queues={key: found[key] for key in queues},
            moments={request_id.decode(): moment for request_id, moment in moments},
            outbox=sorted((fields for _, fields in outbox), key=_place),
            fields=[field for key in hashes for field in found[key].items()],
        )


def _place(fields: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    return sorted(fields.items())
