"""What waits or was set aside: the load of each queue, the bound of the outbox, and malformed entries.

The acting sweeper writes the loads, and which queues are over their bounds; planners and `accept` read them.  Every script that
ends a request checks the bound of the outbox.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from chorale_client.errors import safe_repr
from chorale_client.keys import OUTBOX_LIMIT, OUTBOX_REFUSED, OVERLOAD, QUARANTINE, SWEEPER
from chorale_client.protocol_constants import PROTOCOL
from redis import Redis

from ledger import ledger_scripts

EXPIRES_MS = 2_000
"""TTL of the loads: refusals end so soon after the last sweeper."""


@dataclass(frozen=True, slots=True)
class Load:
    length: int
    age_ms: int | None = None
    """How long its oldest message has waited; None: the queue is empty, or the age is unknown."""
    over: str = ""
    """The bound that it exceeds: `length`, `age`, or empty for none."""

    def __str__(self) -> str:
        age = "" if self.age_ms is None else f", the oldest for {self.age_ms / 1000:.1f} s"
        return f"{self.length:,} messages wait{age}"


class Overload:
    """Writes the loads.  Raises RedisError."""

    def __init__(self, client: Redis) -> None:
        self._scripts = ledger_scripts(client)

    def write(self, sweeper: str, loads: Mapping[str, Load], *, retry_after_ms: int | None) -> bool:
        """Replace the loads; False: another sweeper acts by now.

        With `retry_after_ms` new requests are refused.
        """
        fields: list[str | int] = []
        for queue, load in loads.items():
            fields += [f"length:{queue}", load.length]
            if load.age_ms is not None:
                fields += [f"age_ms:{queue}", load.age_ms]
            if load.over:
                fields += [f"over:{queue}", load.over]
        if retry_after_ms is not None:
            fields += ["retry_after_ms", retry_after_ms]
        args = [sweeper, EXPIRES_MS, *fields]
        return bool(self._scripts.run("overload", keys=[SWEEPER, OVERLOAD], args=args))


def read_loads(flat: Sequence[bytes]) -> dict[str, Load]:
    """The loads by queue, from the fields of the hash."""
    fields = _fields(flat)
    queues = [name.removeprefix("length:") for name in fields if name.startswith("length:")]
    return {
        queue: Load(
            int(fields[f"length:{queue}"]),
            int(fields[age]) if (age := f"age_ms:{queue}") in fields else None,
            fields.get(f"over:{queue}", ""),
        )
        for queue in queues
    }


def read_retry_after_ms(flat: Sequence[bytes]) -> int | None:
    """New requests are refused for about this time; None: they are accepted."""
    value = _fields(flat).get("retry_after_ms")
    return None if value is None else int(value)


def _fields(flat: Sequence[bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in zip(flat[::2], flat[1::2], strict=True)}


@dataclass(frozen=True, slots=True)
class OutboxBound:
    entries: int
    """Maximum number of entries; 0: no limit."""
    refused: int
    """How many requests were refused because the outbox was full.  They are counted and not audited."""


def publish_outbox_limit(client: Redis, entries: int) -> None:
    """Tell callers, which have no settings, the limit of the workers.  Raises RedisError."""
    client.set(OUTBOX_LIMIT, entries)


def read_outbox_bound(client: Redis) -> OutboxBound:
    """Raises RedisError."""
    limit, refused = cast("list[bytes | None]", client.mget(OUTBOX_LIMIT, OUTBOX_REFUSED))
    return OutboxBound(PROTOCOL.default_outbox_limit if limit is None else int(limit), int(refused or 0))


MOST_LISTED = 3


@dataclass(frozen=True, slots=True)
class Quarantine:
    entries: int
    first: Mapping[str, str]
    """What is wrong with a few of the entries, by their ids as `safe_repr` writes them."""


def read_quarantine(client: Redis) -> Quarantine:
    """Raises RedisError."""
    entries: Any = client.hgetall(QUARANTINE)
    first = sorted(entries.items())[:MOST_LISTED]
    return Quarantine(len(entries), {safe_repr(_text(name)): _text(why) for name, why in first})


def _text(raw: bytes) -> str:
    return raw.decode(errors="backslashreplace")
