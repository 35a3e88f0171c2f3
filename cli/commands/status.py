"""`chorale status`: what runs, what waits, what there is to search."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from cli.installation import Installation
    from cli.monitoring.liveness import Waiting, Worker
    from ledger.breakers import Breaker
    from models.documents import NamespaceState


@dataclass(frozen=True, slots=True)
class Status:
    """An installation at one moment."""

    home: str
    redis: str
    """Its address, without a password."""
    redis_version: str
    workers: Sequence[Worker]
    queues: Sequence[Waiting]
    breakers: Sequence[Breaker]
    """Those that are not closed."""
    at_ms: int
    """By the Redis server's clock, as the breakers' times."""
    refusing_for_s: float | None
    """New requests are refused for about so long; None: they are let in."""
    in_flight: int
    """Requests that have begun and not ended."""
    outbox_entries: int
    """Ended requests that wait for the audit tables."""
    outbox_age_s: float
    outbox_limit: int
    """How many may wait before new requests are refused; 0: any number."""
    outbox_refused: int
    """Requests that were refused, and only counted, since so many waited."""
    unreadable: int
    """Outbox entries that no table took; the newest thousand are kept aside."""
    chords: str
    """`lean` or `plain`."""
    namespaces: Sequence[NamespaceState]
    published: Mapping[str, int]
    """Generations as Redis has them."""

    def to_wire(self) -> dict[str, Any]:
        from chorale_client.words import WIRE_VERSION

        from cli.commands.namespaces import wire

        return {
            "v": WIRE_VERSION,
            "home": self.home,
            "redis": {"address": self.redis, "version": self.redis_version},
            "workers": [asdict(worker) for worker in self.workers],
            "queues": [asdict(queue) for queue in self.queues],
            "breakers": [self._breaker(breaker) for breaker in self.breakers],
            "refusing_for_s": self.refusing_for_s,
            "requests_in_flight": self.in_flight,
            "outbox": {
                "entries": self.outbox_entries,
                "oldest_s": self.outbox_age_s,
                "limit": self.outbox_limit,
                "refused": self.outbox_refused,
                "unreadable": self.unreadable,
            },
            "chords": self.chords,
            "namespaces": [wire(state, self.published.get(state.name)) for state in self.namespaces],
        }

    def _breaker(self, breaker: Breaker) -> dict[str, Any]:
        return {
            "name": breaker.name,
            "state": breaker.state(self.at_ms),
            "open_for_s": max(0, self.at_ms - breaker.opened_at_ms) / 1000,
            "tried_again_in_s": max(0, breaker.open_until_ms - self.at_ms) / 1000,
            "is_probed": breaker.is_probed,
            "failures": breaker.failures,
            "reason": breaker.reason,
        }


def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show workers, queues, namespaces and what is on its way to the audit tables.

    Examples:

        chorale status

        chorale status --json

        watch -n 1 chorale status
    """
    from cli.installation import find_installation
    from cli.terminal import stdout

    found = read_status(find_installation())
    if as_json:
        print(json.dumps(found.to_wire()))
        return
    console = stdout()
    for part in view(found):
        console.print(part)


def read_status(around: Installation) -> Status:
    """Raises NotRunning, BadIndex (a damaged corpus), RedisError."""
    from chorale_client.redis_urls import without_password

    from audit.outbox import UNREADABLE, outbox_state
    from cli.monitoring.generations import published
    from cli.monitoring.liveness import in_flight, read_queues, read_workers
    from ledger.outbox import read_outbox_bound
    from ledger.outcomes import store_name
    from tasks.registration import make_app

    redis = around.running_redis()
    resources, settings = around.resources, around.settings
    entries, age_s = outbox_state(redis)
    bound = read_outbox_bound(redis)
    states = resources.writing_store.namespaces()
    pipeline = around.pipeline
    names = [branch.name for branch in pipeline.branches] + [store_name(name) for name in pipeline.stores]
    look = resources.breakers.look(names)
    workers = read_workers(redis)
    return Status(
        home=str(settings.home),
        redis=without_password(resources.redis_url),
        redis_version=str(redis.info("server")["redis_version"]),
        workers=workers,
        queues=read_queues(redis, around.pipeline.queues, broker_url=settings.broker_url, workers=workers),
        breakers=list(look.breakers.values()),
        at_ms=look.now_ms,
        refusing_for_s=None if look.retry_after_ms is None else look.retry_after_ms / 1000,
        in_flight=in_flight(redis),
        outbox_entries=entries,
        outbox_age_s=age_s,
        outbox_limit=bound.entries,
        outbox_refused=bound.refused,
        unreadable=int(redis.xlen(UNREADABLE)),
        chords="lean" if make_app(resources).fanout.is_lean else "plain",
        namespaces=states,
        published=published(around, [state.name for state in states]),
    )


def view(found: Status) -> list[Any]:
    """What is printed, from top to bottom."""
    from rich.text import Text

    from cli.commands.namespaces import table

    outbox = "empty"
    if found.outbox_entries:
        most = f" of at most {found.outbox_limit:,}" if found.outbox_limit else ""
        outbox = f"{found.outbox_entries:,}{most} waiting, the oldest for {found.outbox_age_s:.1f} s"
    if found.outbox_refused:
        outbox += f", {found.outbox_refused:,} requests were refused since so many waited"
    if found.unreadable:
        outbox += f", {found.unreadable:,} kept aside as unreadable"
    lines = {
        "home": found.home,
        "redis": f"{found.redis} · version {found.redis_version}",
        "requests": f"{found.in_flight:,} in flight · chords are {found.chords}",
        "outbox": outbox,
    }
    if found.refusing_for_s is not None:
        lines["overload"] = f"new requests are refused, for about {found.refusing_for_s:.1f} s"
    head = Text("\n").join(Text.assemble((f"{name:<10}", "dim"), value) for name, value in lines.items())
    parts: list[Any] = [head, "", workers_table(found.workers), "", queues_table(found.queues), ""]
    if found.breakers:
        parts += [breakers_table(found), ""]
    if found.namespaces:
        parts.append(table(list(found.namespaces), dict(found.published)))
    else:
        parts.append(Text("no namespaces yet: `chorale index PATH…` makes one", "dim"))
    return parts


def workers_table(workers: Sequence[Worker]) -> Table | str:
    from rich.text import Text

    from cli.terminal import plain_table

    if not workers:
        return Text("no worker runs: start them with `chorale up`", "yellow")  # type: ignore[return-value]
    shown = plain_table("worker", "works on", "", "seen", "process", right=("seen", "process"))
    for worker in workers:
        shown.add_row(
            Text(worker.name, "bold"),
            ", ".join(queue.removeprefix("chorale.") for queue in worker.queues)
            or Text("sweeps, drains", "dim"),
            Text("ready", "green") if worker.is_ready else Text("starting", "yellow"),
            f"{worker.age_s:.1f} s ago",
            str(worker.pid or ""),
        )
    return shown


def queues_table(queues: Sequence[Waiting]) -> Table:
    from rich.text import Text

    from cli.terminal import plain_table

    shown = plain_table("queue", "waiting", "oldest", "workers", right=("waiting", "oldest", "workers"))
    for queue in queues:
        length = "unknown" if queue.length is None else f"{queue.length:,}"
        age = "" if queue.oldest_s is None else f"{queue.oldest_s:.1f} s"
        style = "dim" if queue.length == 0 else ""
        shown.add_row(
            queue.queue, Text(length, style), age, "" if queue.workers is None else str(queue.workers)
        )
    return shown


def breakers_table(found: Status) -> Table:
    """Branches and stores that are not asked at present."""
    from rich.text import Text

    from cli.terminal import plain_table

    shown = plain_table("breaker", "", "since", "tried again", "failures", "last", right=("failures",))
    for breaker in found.breakers:
        wire = found._breaker(breaker)
        again = "at this moment" if breaker.is_probed else f"in {wire['tried_again_in_s']:.1f} s"
        shown.add_row(
            Text(breaker.name, "bold"),
            Text(wire["state"].replace("_", " "), "yellow"),
            f"{wire['open_for_s']:.0f} s ago",
            "by the next request" if wire["state"] == "half_open" and not breaker.is_probed else again,
            str(breaker.failures),
            breaker.reason,
        )
    return shown
