"""`chorale status` and `chorale env`: what runs here, and the variables by which programs find it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from cli.installation import Installation, find_installation
from cli.namespace_states import namespace_fields, namespaces_table, published
from cli.options import AsJson
from cli.terminal import Text, moment, plain_table, print_json, print_line, print_result

if TYPE_CHECKING:
    from redis import Redis
    from rich.table import Table

    from ledger.breakers import Breaker

ForCelery: TypeAlias = Annotated[
    bool, typer.Option("--celery", help="In Celery's spelling, which differs for a Unix socket.")
]
Fields: TypeAlias = Mapping[str, Any]
"""JSON of `chorale status --json`."""


def status(
    as_json: AsJson = False,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Print the metrics that the HTTP API has under /metrics.")
    ] = False,
) -> None:
    """Show workers, queues, namespaces and what is on its way to the audit tables.

    Examples:

        chorale status

        chorale status --json

        watch -n 1 chorale status

        chorale status --prometheus > /var/lib/node_exporter/chorale.prom
    """
    installation = find_installation()
    if prometheus:
        from config.visible_text import visible
        from monitoring.exporter import render
        from monitoring.queues import read_queues

        redis, queues = installation.running_redis(), installation.pipeline.queues
        states = read_queues(redis, queues, broker_url=installation.settings.broker_url)
        typer.echo(visible(render(redis, queues=states).decode()), nl=False)
        return
    fields = read_status(installation)
    print_result(fields, *view(fields), as_json=as_json)


def breaker_fields(breaker: Breaker, now_ms: int) -> dict[str, Any]:
    return {
        "name": breaker.name,
        "state": breaker.state(now_ms),
        "open_for_s": max(0, now_ms - breaker.opened_at_ms) / 1000,
        "tried_again_in_s": max(0, breaker.open_until_ms - now_ms) / 1000,
        "is_probed": breaker.is_probed,
        "failures": breaker.failures,
        "reason": breaker.reason,
    }


def read_status(installation: Installation) -> dict[str, Any]:
    """What `chorale status --json` prints; raises NotRunning, BadIndex (a damaged corpus), RedisError."""
    from chorale_client.keys import WAKEUPS
    from chorale_client.redis_urls import without_password

    from ledger.backlog import read_quarantine
    from ledger.breaker_outcomes import store_name
    from monitoring.heartbeats import read_heartbeats
    from monitoring.queues import read_queues
    from records.rules.adaptation_checks import read_adaptation_checks
    from tasks.registration import make_app

    redis = installation.running_redis()
    resources, settings, pipeline = installation.resources, installation.settings, installation.pipeline
    states = resources.namespaces()
    generations = published(installation, [state.name for state in states])
    names = [branch.name for branch in pipeline.branches] + [store_name(name) for name in pipeline.stores]
    load = resources.breakers.read(names)
    adapting = [name for name, configuration in pipeline.configurations.items() if configuration.adapt]
    workers = read_heartbeats(redis)
    queues = read_queues(redis, pipeline.queues, broker_url=settings.broker_url, workers=workers)
    return {
        "home": str(settings.home),
        "redis": {
            "address": without_password(resources.redis_url),
            "version": str(redis.info("server")["redis_version"]),
        },
        "workers": [
            {name: value for name, value in asdict(worker).items() if name != "about"} for worker in workers
        ],
        "queues": [
            {"queue": name, "length": state.length, "oldest_s": state.age_s, "workers": state.workers}
            for name, state in queues.items()
        ],
        "breakers": [breaker_fields(breaker, load.now_ms) for breaker in load.breakers.values()],
        "refusing_for_s": None if load.retry_after_ms is None else load.retry_after_ms / 1000,
        "requests_in_flight": int(redis.zcard(WAKEUPS)),
        "outbox": _outbox_fields(redis),
        "quarantine": asdict(read_quarantine(redis)),
        "chords": "lean" if make_app(resources).fanout.is_lean else "plain",
        "adapting": [
            asdict(check) for check in read_adaptation_checks(redis) if check.configuration in adapting
        ],
        "namespaces": [namespace_fields(state, generations.get(state.name)) for state in states],
    }


def _outbox_fields(redis: Redis) -> dict[str, Any]:
    from ledger.backlog import read_outbox_bound
    from records.audit.outbox import UNREADABLE, outbox_state

    entries, age_s = outbox_state(redis)
    bound = read_outbox_bound(redis)
    return {
        "entries": entries,
        "oldest_s": age_s,
        "limit": bound.entries,
        "refused": bound.refused,
        "unreadable": int(redis.xlen(UNREADABLE)),
    }


def view(status: Fields) -> list[Any]:
    """What the console prints, from top to bottom."""
    outbox, waiting = status["outbox"], "empty"
    if outbox["entries"]:
        most = f" of at most {outbox['limit']:,}" if outbox["limit"] else ""
        waiting = f"{outbox['entries']:,}{most} waiting, the oldest for {outbox['oldest_s']:.1f} s"
    if outbox["refused"]:
        waiting += f", {outbox['refused']:,} requests were refused while it was full"
    if outbox["unreadable"]:
        waiting += f", {outbox['unreadable']:,} kept aside as unreadable"
    lines = {
        "home": status["home"],
        "redis": f"{status['redis']['address']} · version {status['redis']['version']}",
        "requests": f"{status['requests_in_flight']:,} in flight · {status['chords']} chords",
        "outbox": waiting,
    }
    if aside := status["quarantine"]["entries"]:
        first = "; ".join(f"{request_id}: {why}" for request_id, why in status["quarantine"]["first"].items())
        lines["set aside"] = f"{aside:,} malformed entries, now deleted · {first}"
    if status["refusing_for_s"] is not None:
        lines["overload"] = f"new requests are refused, for about {status['refusing_for_s']:.1f} s"
    head = Text("\n").join(Text.assemble((f"{name:<10}", "dim"), value) for name, value in lines.items())
    parts: list[Any] = [head, "", workers_table(status["workers"]), "", queues_table(status["queues"]), ""]
    if status["breakers"]:
        parts += [breakers_table(status["breakers"]), ""]
    if status["adapting"]:
        parts += [adapting_table(status["adapting"]), ""]
    if status["namespaces"]:
        parts.append(namespaces_table(status["namespaces"]))
    else:
        parts.append(Text("no namespaces yet: `chorale index PATH…` makes one", "dim"))
    return parts


def workers_table(workers: Sequence[Fields]) -> Table | Text:
    if not workers:
        return Text("no worker runs: start them with `chorale up`", "yellow")
    table = plain_table("worker", "works on", "", ">seen", ">process")
    for worker in workers:
        table.add_row(
            Text(worker["name"], "bold"),
            ", ".join(queue.removeprefix("chorale.") for queue in worker["queues"])
            or Text("sweeps, drains", "dim"),
            Text("ready", "green") if worker["is_ready"] else Text("starting", "yellow"),
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


def breakers_table(breakers: Sequence[Fields]) -> Table:
    """The branches and stores whose breakers are open."""
    table = plain_table("breaker", "", "since", "tried again", ">failures", "last")
    for breaker in breakers:
        again = "at this moment" if breaker["is_probed"] else f"in {breaker['tried_again_in_s']:.1f} s"
        table.add_row(
            Text(breaker["name"], "bold"),
            Text(breaker["state"].replace("_", " "), "yellow"),
            f"{breaker['open_for_s']:.0f} s ago",
            "by the next request" if breaker["state"] == "half_open" and not breaker["is_probed"] else again,
            str(breaker["failures"]),
            breaker["reason"],
        )
    return table


def adapting_table(checks: Sequence[Fields]) -> Table:
    """The last check of the grades of each namespace, for each configuration that adapts."""
    table = plain_table("adapts", "in", "checked (UTC)", "outcome")
    for check in checks:
        table.add_row(check["configuration"], check["namespace"], moment(check["at_ms"]), check["outcome"])
    return table


def env(as_json: AsJson = False, celery: ForCelery = False) -> None:
    """Print the variables with which applications, examples and Celery find the running Chorale, with passwords.

    Chorale's own commands need none of them: they find the `chorale up` of their CHORALE_HOME.

    Examples:

        eval "$(chorale env)"

        eval "$(chorale env --celery)"

        chorale env --json
    """
    from chorale_client.redis_urls import SCHEMES, celery_url

    from config.home import find_redis_url

    installation = find_installation()
    settings = installation.settings
    # The Redis that `chorale up` runs for this home comes first: the terminal may have the address of an earlier one.
    if (running_url := find_redis_url(settings.home)) is None:
        installation.running_redis()
    addresses = {
        "CHORALE_REDIS_URL": running_url or installation.redis_url,
        "CHORALE_BROKER_URL": settings.broker_url,
    }
    variables = {
        name: celery_url(value) if value.startswith("rediss:" if not celery else SCHEMES) else value
        for name, value in addresses.items()
        if value is not None
    }
    if as_json:
        print_json({"environment": variables})
        return
    if sys.stdout.isatty():
        print_line('call it as `eval "$(chorale env)"`: this sets', sys.stderr)
    for name, value in variables.items():
        print_line(f"export {name}={shlex.quote(value)}")
