"""`chorale status` on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from cli.monitoring.status import Status, breaker_fields
from cli.terminal import plain_table
from cli.views.namespaces import namespaces_table

if TYPE_CHECKING:
    from rich.table import Table

    from cli.monitoring.heartbeats import Heartbeat
    from ledger.breakers import Look
    from tasks.sweeping.queues import QueueState


def view(found: Status) -> list[Any]:
    """What the console prints, from top to bottom."""
    outbox, bound = "empty", found.outbox_bound
    if found.outbox_entries:
        most = f" of at most {bound.entries:,}" if bound.entries else ""
        outbox = f"{found.outbox_entries:,}{most} waiting, the oldest for {found.outbox_age_s:.1f} s"
    if bound.refused:
        outbox += f", {bound.refused:,} requests were refused while it was full"
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
    if found.look.breakers:
        parts += [breakers_table(found.look), ""]
    if found.namespaces:
        parts.append(namespaces_table(found.namespaces, found.published))
    else:
        parts.append(Text("no namespaces yet: `chorale index PATH…` makes one", "dim"))
    return parts


def workers_table(workers: Sequence[Heartbeat]) -> Table | Text:
    if not workers:
        return Text("no worker runs: start them with `chorale up`", "yellow")
    shown = plain_table("worker", "works on", "", ">seen", ">process")
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


def queues_table(queues: Mapping[str, QueueState]) -> Table:
    shown = plain_table("queue", ">waiting", ">oldest", ">workers")
    for name, state in queues.items():
        length = "unknown" if state.length is None else f"{state.length:,}"
        age = "" if state.age_s is None else f"{state.age_s:.1f} s"
        style = "dim" if state.length == 0 else ""
        shown.add_row(name, Text(length, style), age, "" if state.workers is None else str(state.workers))
    return shown


def breakers_table(look: Look) -> Table:
    """The branches and stores that are not asked at present."""
    shown = plain_table("breaker", "", "since", "tried again", ">failures", "last")
    for breaker in look.breakers.values():
        wire = breaker_fields(breaker, look.now_ms)
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
