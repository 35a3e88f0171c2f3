"""The outbox: a Redis stream of ended requests that wait for the audit tables.

The script that ends a request writes its entry.  The fields are strings:

    id                 the request's
    accepted_at        milliseconds since 1970, by the Redis server's clock
    ended_at           likewise
    by                 who ended it: fusion, sweeper, planner, cache, leader, client, admission
    request            JSON of the Request
    plan               JSON of the Plan, without answers of the cache if nothing was published; empty if the request was
                       never planned
    answer             JSON of the whole answer
    completed          JSON of the scores that completed rankings: for each question asked, by branch and passage id; only
                       for a plan with `complete_scores`, and not if the outbox is long
    result:<branch>    JSON of the BranchResult of each branch that reported; if the outbox is long, an `ok` branch result has
                       `left_out` instead of its candidates
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
from chorale_client.keys import OUTBOX
from chorale_client.scripts import Scripts
from chorale_client.wire_names import Reason
from pydantic_core import from_json

from models.branch_result import BranchResult

UNREADABLE = f"{OUTBOX}:unreadable"
"""Stream of entries that could not be written, with their `error`: about the newest MAX_UNREADABLE of them."""

MAX_UNREADABLE = 1_000

RawFields = Mapping[bytes, bytes] | Mapping[str, str] | Mapping[bytes | str, bytes | str]
"""The fields of an entry as a Redis client returns them."""
Fields = Mapping[str, bytes | str]

_BRANCH_RESULT = "result:"


class Unreadable(ValueError):
    """A malformed entry; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Ended:
    """An ended request as it left the ledger.  The dicts are JSON; any field may be missing."""

    request_id: str
    accepted_at_ms: int
    ended_at_ms: int
    by: str
    request: dict[str, Any]
    plan: dict[str, Any] | None
    answer: dict[str, Any]
    branch_results: dict[str, dict[str, Any]]
    """JSON of the BranchResult by branch.  Converting rankings to hits would take most of the drainer's time, and they are
    written as JSON again."""
    completed: list[dict[str, Any]] | None = None
    """The scores that completed rankings; None: there are none, or they were left out."""


def parse(fields: RawFields) -> Ended:
    """Read one entry.  Raises Unreadable; a malformed branch result becomes a failed branch."""
    try:
        entry = named(fields)
        return Ended(
            request_id=_text(entry["id"]),
            accepted_at_ms=int(entry["accepted_at"]),
            ended_at_ms=int(entry["ended_at"]),
            by=_text(entry.get("by", "")),
            request=request_of(entry),
            plan=_object(entry.get("plan"), "plan") or None,
            answer=_object(entry["answer"], "answer"),
            branch_results={
                branch: _branch_result(branch, value)
                for name, value in entry.items()
                if (branch := name.removeprefix(_BRANCH_RESULT)) != name
            },
            completed=from_json(scores, cache_strings=False) if (scores := entry.get("completed")) else None,
        )
    except KeyError as error:
        raise Unreadable(f"no field {error.args[0]!r}") from None
    except ValueError as error:
        raise Unreadable(str(error)) from error


def named(fields: RawFields) -> Fields:
    """The fields by name; raises Unreadable."""
    try:
        return {_text(name): value for name, value in fields.items()}
    except ValueError as error:
        raise Unreadable(f"a field's name: {error}") from error


def request_of(fields: Fields) -> dict[str, Any]:
    """The request that ended; raises ValueError."""
    return _object(fields.get("request"), "request")


def audit_scripts(client: redis.Redis) -> Scripts:
    """The scripts of this folder (`scripts/*.lua`)."""
    return Scripts(client, Path(__file__).parent / "scripts")


def outbox_state(client: redis.Redis, stream: str = OUTBOX) -> tuple[int, float]:
    """Number of ended requests that wait for the audit tables (or in another stream), and the age of the oldest in seconds."""
    entries, age_ms = audit_scripts(client).run("outbox_state", [stream])
    return entries, age_ms / 1000


def _branch_result(branch: str, raw: bytes | str) -> dict[str, Any]:
    """JSON that BranchResult.from_wire can read; a malformed branch result becomes that of a failed branch."""
    try:
        wire: dict[str, Any] = from_json(raw, cache_strings=False)
        if "status" in wire and all(
            min(map(len, ranking["hits"]), default=3) >= 3 for ranking in wire["rankings"]
        ):
            return wire
        error = "a hit without its ids and score"
    except (ValueError, KeyError, TypeError) as reason:
        error = str(reason)
    failed = BranchResult.failed(branch, Reason.INVALID_ANSWER, f"unreadable result: {error}")
    return _object(failed.to_wire(), branch)


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()


def _object(raw: bytes | str | None, name: str) -> dict[str, Any]:
    # A cache of strings costs a quarter of the drainer's time: the ids of hits seldom repeat.
    value = from_json(raw, cache_strings=False) if raw else {}
    if not isinstance(value, dict):
        raise ValueError(f"{name}: not a JSON object")
    return value
