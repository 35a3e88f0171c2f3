"""The malformed entries that the sweeper has set aside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chorale_client.keys import QUARANTINE
from chorale_client.shown import shown
from redis import Redis

MOST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Quarantine:
    entries: int
    first: Mapping[str, str]
    """What is wrong with a few of the entries, by their ids as `shown` writes them."""


def read_quarantine(client: Redis) -> Quarantine:
    """Raises RedisError."""
    found: Any = client.hgetall(QUARANTINE)
    first = sorted(found.items())[:MOST_SHOWN]
    return Quarantine(len(found), {shown(_text(name)): _text(why) for name, why in first})


def _text(raw: bytes) -> str:
    return raw.decode(errors="backslashreplace")
