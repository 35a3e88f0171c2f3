"""`chorale doctor`: what is wrong with an installation, and how to mend it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from models.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from cli.checks.finding import Check, Finding
    from cli.surroundings import Surroundings

FINDINGS = 1
"""Exit code."""


@dataclass(frozen=True, slots=True)
class Examined:
    """One check and what it came to."""

    name: str
    findings: tuple[Finding, ...] = ()
    skipped: str | None = None
    """Why it could not look."""


def checks() -> Mapping[str, Check]:
    """All of them, by what they are about."""
    from cli.checks import audit_trail, corpus, environment, redis_server, workers

    return {
        "settings": environment.variables,
        "redis answers": redis_server.reachable,
        "redis version": redis_server.version,
        "redis memory": redis_server.memory,
        "redis durability": redis_server.durability,
        "workers": workers.queues_are_served,
        "wire versions": workers.wire_versions,
        "queues": workers.queue_lengths,
        "sweeper": workers.sweeper,
        "outbox": audit_trail.outbox,
        "audit database": audit_trail.schema,
        "documents": corpus.store_is_readable,
        "model": corpus.model,
        "generations": corpus.generations,
    }


def doctor(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document, healthy checks too.")
    ] = False,
) -> None:
    """Look for what is wrong, and say how to mend it; nothing is changed.

    Exit code: 0 nothing found, 1 something found.

    Examples:

        chorale doctor

        chorale doctor --json
    """
    from chorale_client.words import WIRE_VERSION

    from cli.surroundings import surroundings
    from cli.terminal import stdout

    found = examine(surroundings(), checks())
    if as_json:
        print(json.dumps({"v": WIRE_VERSION, "checks": [_wire(one) for one in found]}))
    else:
        show(stdout(), found)
    if any(one.findings or one.skipped for one in found):
        raise typer.Exit(FINDINGS)


def examine(around: Surroundings, given: Mapping[str, Check]) -> list[Examined]:
    """Every check, whatever the others come to."""
    from redis import RedisError

    examined = []
    for name, check in given.items():
        try:
            examined.append(Examined(name, tuple(check(around))))
        except (ServiceError, RedisError) as error:
            examined.append(Examined(name, skipped=str(error)))
    return examined


def show(console: Console, found: list[Examined]) -> None:
    """What was found; of a healthy installation a single line."""
    from rich.text import Text

    from cli.terminal import plain_table

    table = plain_table("check", "what is wrong, and how to mend it")
    for one in found:
        for number, finding in enumerate(one.findings):
            said = Text.assemble(finding.what, "\n", ("→ ", "green"), (finding.mend, "green"))
            table.add_row(Text("" if number else one.name, "bold"), said)
    if table.row_count:
        console.print(table)
        console.print()
    skipped = [one.name for one in found if one.skipped]
    if skipped:
        console.print(Text(f"not looked at for that reason: {', '.join(skipped)}", "dim"))
    findings = sum(len(one.findings) for one in found)
    healthy = sum(not one.findings and not one.skipped for one in found)
    if findings or skipped:
        console.print(Text(f"{findings:,} to mend · {healthy} of {len(found)} checks are well", "dim"))
    else:
        console.print(Text.assemble(("well", "green"), (f" · {healthy} checks, nothing to mend", "dim")))


def _wire(one: Examined) -> dict[str, Any]:
    status = "found" if one.findings else "skipped" if one.skipped else "well"
    return {
        "check": one.name,
        "status": status,
        "why": one.skipped,
        "findings": [asdict(f) for f in one.findings],
    }
