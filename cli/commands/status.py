"""`chorale status`: what runs here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from cli.exit_codes import OTHER
from cli.installation import Installation, NotRunning, find_installation
from cli.namespace_states import namespace_fields, namespaces_table, published
from cli.options import AsJson
from cli.terminal import (
    Text,
    facts_table,
    findings_table,
    moment,
    plain_table,
    print_result,
)
from models.errors import StoreUnavailable

if TYPE_CHECKING:
    from rich.table import Table

MOST_NAMESPACES = 100
Fields: TypeAlias = Mapping[str, Any]
"""JSON of `chorale status --json`."""


def status(
    as_json: AsJson = False,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Print the metrics that the HTTP API has under /metrics.")
    ] = False,
) -> None:
    """Show workers, queues, namespaces and what is on its way to the audit tables, of each cell.

    Examples:

        chorale status

        watch -n 1 chorale status

        chorale status --prometheus > /var/lib/node_exporter/chorale.prom
    """
    installation = find_installation(is_anywhere=True, has_structlog=False)
    if prometheus:
        from config.visible_text import visible

        typer.echo(visible(read_metrics(installation).decode()), nl=False)
        return
    if not installation.settings.cells:
        fields = read_status(installation)
        print_result(fields, *view(fields), as_json=as_json)
        if fields["namespaces"] is None:
            raise typer.Exit(OTHER)
        return
    cells = {name: status_of(cell) for name, cell in installation.cells.items()}
    parts = [
        part for name, fields in cells.items() for part in (Text(f"cell {name}", "bold"), *view(fields), "")
    ]
    print_result({"cells": cells}, *parts, as_json=as_json)
    if any("error" in fields or fields["namespaces"] is None for fields in cells.values()):
        raise typer.Exit(OTHER)


def read_metrics(installation: Installation) -> bytes:
    """What `chorale status --prometheus` prints, of all cells."""
    from config.redis_client import open_redis
    from monitoring.exporter import render, render_cells
    from monitoring.queues import read_queues

    settings, queues = installation.settings, installation.pipeline.queues
    if settings.cells:
        cells = {name: open_redis(url) for name, url in settings.cells.items()}
        return render_cells(cells, read_queues=partial(read_queues, queues=queues))
    redis = installation.running_redis()
    return render(redis, queues=read_queues(redis, queues, broker_url=settings.broker_url))


def status_of(cell: Installation) -> dict[str, Any]:
    """As `read_status`, or the `error` of a cell that is lost."""
    from redis import RedisError

    from config.redis_client import explained

    try:
        return read_status(cell)
    except NotRunning as error:
        return {"error": str(error)}
    except RedisError as error:
        return {"error": str(explained(error, cell.redis_url))}


def read_status(installation: Installation) -> dict[str, Any]:
    """What `chorale status --json` prints; raises NotRunning, BadIndex (a damaged corpus), RedisError.

    `namespaces` is None, with a finding, where the documents' database does not answer.
    """
    from chorale_client.connections.urls import without_password

    from records.rules.adaptation_checks import read_adaptation_checks

    redis, pipeline = installation.running_redis(), installation.pipeline
    running, unusable = installation.running().to_wire(), None
    try:
        one_more = installation.corpus.namespaces(limit=MOST_NAMESPACES + 1)
    except StoreUnavailable as failure:
        from cli.doctor.corpus import unusable_database

        one_more, unusable = [], unusable_database(installation, failure)
        finding = {"check": "documents", "what": unusable.what, "mend": unusable.mend}
        running = {**running, "findings": [*running["findings"], finding]}
    states = one_more[:MOST_NAMESPACES]
    generations = published(installation, [state.name for state in states])
    adapting = [name for name, configuration in pipeline.configurations.items() if configuration.adapt]
    return {
        "home": str(installation.settings.home),
        "redis": {
            "address": without_password(installation.redis_url or ""),
            "version": str(redis.info("server")["redis_version"]),
        },
        **running,
        "adapting": [
            asdict(check) for check in read_adaptation_checks(redis) if check.configuration in adapting
        ],
        "namespaces": None
        if unusable
        else [namespace_fields(state, generations.get(state.name)) for state in states],
        "has_more_namespaces": len(one_more) > len(states),
    }


def view(status: Fields) -> list[Any]:
    """What the console prints, from top to bottom."""
    if "error" in status:
        return [Text(status["error"], "red")]
    outbox = status["outbox"]
    refused = f", {outbox['refused']:,} requests were refused while it was full" if outbox["refused"] else ""
    lines = {
        "home": status["home"],
        "redis": f"{status['redis']['address']} · version {status['redis']['version']}",
        "requests": f"{status['requests_in_flight']:,} in flight",
        "outbox": f"{outbox['entries']:,} waiting{refused}",
    }
    parts: list[Any] = [
        facts_table(lines),
        "",
        workers_table(status["workers"]),
        "",
        queues_table(status["queues"]),
        "",
    ]
    if status["adapting"]:
        parts += [adapting_table(status["adapting"]), ""]
    if status["namespaces"]:
        parts.append(namespaces_table(status["namespaces"]))
        if status["has_more_namespaces"]:
            last = status["namespaces"][-1]["name"]
            parts.append(f"there are more namespaces: `chorale namespaces list --after {last}`")
    elif status["namespaces"] is None:
        parts.pop()
    else:
        parts.append(Text("no namespaces yet: `chorale index PATH…` makes one", "dim"))
    if status["findings"]:
        parts += ["", findings_table(status["findings"])]
    return parts


def workers_table(workers: Sequence[Fields]) -> Table:
    table = plain_table("worker", "works on", "", ">seen", ">process")
    for worker in workers:
        table.add_row(
            Text(worker["name"], "bold"),
            ", ".join(queue.removeprefix("chorale.") for queue in worker["queues"])
            or Text("sweeps, drains", "dim"),
            Text("ready", "green") if worker["is_ready"] else Text("not ready", "yellow"),
            f"{worker['age_s']:.1f} s ago",
            str(worker["pid"] or ""),
        )
    return table


def queues_table(queues: Sequence[Fields]) -> Table:
    table = plain_table("queue", ">waiting", ">oldest", ">workers")
    for queue in queues:
        length = "unknown" if queue["length"] is None else f"{queue['length']:,}"
        age = "" if queue["oldest_s"] is None else f"{queue['oldest_s']:.1f} s"
        workers = "" if queue["workers"] is None else str(queue["workers"])
        table.add_row(queue["queue"], Text(length, "dim" if queue["length"] == 0 else ""), age, workers)
    return table


def adapting_table(checks: Sequence[Fields]) -> Table:
    """The last check of the grades of each namespace, for each configuration that adapts."""
    table = plain_table("adapts", "in", "checked (UTC)", "outcome")
    for check in checks:
        table.add_row(check["configuration"], check["namespace"], moment(check["at_ms"]), check["outcome"])
    return table
