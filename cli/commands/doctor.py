"""`chorale doctor`: finds what is wrong with an installation, and says how to mend it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from models.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from cli.doctor.finding import Check, Finding
    from cli.installation import Installation

FINDINGS = 1
"""Exit code."""
LONGEST_ERROR = 300
"""Characters of an unexpected error that are shown."""


@dataclass(frozen=True, slots=True)
class Examined:
    """One check and its result."""

    name: str
    findings: tuple[Finding, ...] = ()
    skipped: str | None = None
    """Why the check could not be made; None if it was made."""

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """The findings without the remarks."""
        return tuple(one for one in self.findings if not one.is_remark)


def checks() -> Mapping[str, Check]:
    from cli.doctor import (
        addresses,
        audit_trail,
        broker,
        celery_settings,
        corpus,
        environment,
        file_modes,
        language_models,
        redis_server,
        reports,
        stores,
        workers,
    )

    return {
        "settings": environment.variables,
        "file modes": file_modes.private,
        "redis answers": redis_server.reachable,
        "redis version": redis_server.version,
        "redis release": redis_server.release,
        "redis memory": redis_server.memory,
        "redis evictions": redis_server.evictions,
        "redis durability": redis_server.durability,
        "redis clock": redis_server.clock,
        "redis keys": redis_server.strangers,
        "priorities": redis_server.priorities,
        "quarantine": redis_server.quarantine,
        "broker": broker.reachable,
        "broker's consumers": broker.consumers,
        "workers": workers.queues_are_served,
        "wire versions": workers.wire_versions,
        "package versions": reports.versions,
        "same settings": reports.settings,
        "same pipeline": reports.declarations,
        "same addresses": addresses.same,
        "same folder": reports.folders,
        "same model": reports.models,
        "celery settings": celery_settings.workers,
        "task events": celery_settings.events,
        "chords": celery_settings.chords,
        "queues": workers.queue_lengths,
        "sweeper": workers.sweeper,
        "outbox": audit_trail.outbox,
        "audit database": audit_trail.schema,
        "shared databases": addresses.shared,
        "stores": stores.answer,
        "language models": language_models.answer,
        "language models' time": language_models.have_time,
        "documents": corpus.store_is_readable,
        "model": corpus.model,
        "rerankers": corpus.rerankers,
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
    from cli.installation import find_installation
    from cli.terminal import print_json, stdout

    installation = find_installation()
    found = examine(installation, checks())
    may = installation.pipeline.capabilities
    if as_json:
        print_json({"checks": [_fields(one) for one in found], "capabilities": may})
    else:
        show(stdout(), found, may)
    if any(one.wrong or one.skipped for one in found):
        raise typer.Exit(FINDINGS)


def examine(installation: Installation, given: Mapping[str, Check]) -> list[Examined]:
    """Make every check, whatever the others find."""
    from redis import RedisError

    from cli.doctor.finding import Finding
    from config.redis_failures import explained

    examined = []
    for name, check in given.items():
        findings: list[Finding] = []
        skipped = None
        try:
            findings.extend(check(installation))
        except ServiceError as error:
            skipped = str(error)
        except RedisError as error:
            skipped = str(explained(error))
        except Exception as error:  # costs this one check alone
            said = f"{type(error).__name__}: {error}".partition("\n")[0][:LONGEST_ERROR]
            findings.append(
                Finding(
                    f"this check failed: {said}", "mend what the error names; if it is not yours, report it"
                )
            )
        examined.append(Examined(name, tuple(findings), skipped))
    return examined


def show(console: Console, found: list[Examined], capabilities: Sequence[str]) -> None:
    """Print the findings and the capabilities of the stores; a single line for a healthy installation."""
    from rich.padding import Padding

    from cli.terminal import Text, plain_table

    table = plain_table("check", "what is wrong, and how to mend it")
    for one in found:
        for number, finding in enumerate(one.findings):
            said = Text.assemble(finding.what, "\n", ("→ ", "green"), (finding.mend, "green"))
            table.add_row(Text("" if number else one.name, "bold"), said)
    if table.row_count:
        console.print(table)
        console.print()
    skipped = [one for one in found if one.skipped]
    for why in dict.fromkeys(one.skipped for one in skipped):
        names = ", ".join(one.name for one in skipped if one.skipped == why)
        console.print(Text(f"not looked at: {names}", "dim"))
        console.print(Padding(Text(str(why), "dim"), (0, 0, 0, 2)))
    may = f" · {' '.join(capabilities)}"
    wrong = sum(len(one.wrong) for one in found)
    healthy = sum(not one.wrong and not one.skipped for one in found)
    if wrong or skipped:
        console.print(Text(f"{wrong:,} to mend · {healthy} of {len(found)} checks are well{may}", "dim"))
    else:
        console.print(Text.assemble(("well", "green"), (f" · {healthy} checks, nothing to mend{may}", "dim")))


def _fields(one: Examined) -> dict[str, Any]:
    status = "found" if one.wrong else "skipped" if one.skipped else "well"
    return {
        "check": one.name,
        "status": status,
        "why": one.skipped,
        "findings": [asdict(f) for f in one.findings],
    }
