"""`chorale status` on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cli.terminal import Text, plain_table
from cli.views.namespaces import namespaces_table

if TYPE_CHECKING:
    from rich.table import Table

Fields = Mapping[str, Any]
"""JSON of `chorale status --json`."""


def view(found: Fields) -> list[Any]:
    """What the console prints, from top to bottom."""
    said, outbox = found["outbox"], "empty"
    if said["entries"]:
        most = f" of at most {said['limit']:,}" if said["limit"] else ""
        outbox = f"{said['entries']:,}{most} waiting, the oldest for {said['oldest_s']:.1f} s"
    if said["refused"]:
        outbox += f", {said['refused']:,} requests were refused while it was full"
    if said["unreadable"]:
        outbox += f", {said['unreadable']:,} kept aside as unreadable"
    lines = {
        "home": found["home"],
        "redis": f"{found['redis']['address']} · version {found['redis']['version']}",
        "requests": f"{found['requests_in_flight']:,} in flight · {found['chords']} chords",
        "outbox": outbox,
    }
    if aside := found["quarantine"]["entries"]:
        first = "; ".join(f"{request_id}: {why}" for request_id, why in found["quarantine"]["first"].items())
        lines["set aside"] = f"{aside:,} malformed entries, now deleted · {first}"
    if found["refusing_for_s"] is not None:
        lines["overload"] = f"new requests are refused, for about {found['refusing_for_s']:.1f} s"
    head = Text("\n").join(Text.assemble((f"{name:<10}", "dim"), value) for name, value in lines.items())
    parts: list[Any] = [head, "", workers_table(found["workers"]), "", queues_table(found["queues"]), ""]
    if found["breakers"]:
        parts += [breakers_table(found["breakers"]), ""]
    if found["namespaces"]:
        parts.append(namespaces_table(found["namespaces"]))
    else:
        parts.append(Text("no namespaces yet: `chorale index PATH…` makes one", "dim"))
    return parts


def workers_table(workers: Sequence[Fields]) -> Table | Text:
    if not workers:
        return Text("no worker runs: start them with `chorale up`", "yellow")
    shown = plain_table("worker", "works on", "", ">seen", ">process")
    for worker in workers:
        shown.add_row(
            Text(worker["name"], "bold"),
            ", ".join(queue.removeprefix("chorale.") for queue in worker["queues"])
            or Text("sweeps, drains", "dim"),
            Text("ready", "green") if worker["is_ready"] else Text("starting", "yellow"),
            f"{worker['age_s']:.1f} s ago",
            str(worker["pid"] or ""),
        )
    return shown


def queues_table(queues: Sequence[Fields]) -> Table:
    shown = plain_table("queue", ">waiting", ">oldest", ">workers")
    for one in queues:
        length = "unknown" if one["length"] is None else f"{one['length']:,}"
        age = "" if one["oldest_s"] is None else f"{one['oldest_s']:.1f} s"
        workers = "" if one["workers"] is None else str(one["workers"])
        shown.add_row(one["queue"], Text(length, "dim" if one["length"] == 0 else ""), age, workers)
    return shown


def breakers_table(breakers: Sequence[Fields]) -> Table:
    """The branches and stores that are not asked at present."""
    shown = plain_table("breaker", "", "since", "tried again", ">failures", "last")
    for one in breakers:
        again = "at this moment" if one["is_probed"] else f"in {one['tried_again_in_s']:.1f} s"
        shown.add_row(
            Text(one["name"], "bold"),
            Text(one["state"].replace("_", " "), "yellow"),
            f"{one['open_for_s']:.0f} s ago",
            "by the next request" if one["state"] == "half_open" and not one["is_probed"] else again,
            str(one["failures"]),
            one["reason"],
        )
    return shown
