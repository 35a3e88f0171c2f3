"""`chorale doctor`: finds what is wrong with an installation, and says how to mend it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.installation import Installation, find_installation
from cli.output import print_json
from cli.terminal import Text, findings_table, stdout
from models.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console

    from cli.doctor.reports import Check
    from monitoring.checks import Check as RunningCheck
    from monitoring.checks import Finding

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
        return tuple(finding for finding in self.findings if not finding.is_remark)

    def to_wire(self) -> dict[str, Any]:
        status = "found" if self.wrong else "skipped" if self.skipped else "well"
        findings = [asdict(finding) for finding in self.findings]
        return {"check": self.name, "status": status, "why": self.skipped, "findings": findings}


def checks() -> Mapping[str, Check]:
    from cli.doctor import audit_trail, corpus, environment, redis_server, reports, servers, workers
    from monitoring.checks import CHECKS

    return {
        "settings": environment.variables,
        "file modes": environment.private,
        "redis answers": redis_server.reachable,
        "redis version": redis_server.version,
        "redis release": redis_server.release,
        "redis memory": redis_server.memory,
        "redis durability": redis_server.durability,
        "redis clock": redis_server.clock,
        "redis keys": redis_server.strangers,
        "broker": servers.broker,
        **{name: partial(_running, check) for name, check in CHECKS.items()},
        "package versions": reports.versions,
        "celery options": workers.celery_options,
        "cells": workers.cells,
        "same settings": reports.settings,
        "same pipeline": reports.declarations,
        "same addresses": environment.same_addresses,
        "same folder": reports.folders,
        "same model": reports.models,
        "chords": workers.chords,
        "audit database": audit_trail.schema,
        "shared databases": environment.shared_databases,
        "stores": servers.stores,
        "language models": servers.language_models,
        "language models' time": servers.language_models_time,
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
    """
    installation = find_installation(is_anywhere=True)
    # A wrong pipeline file ends the command here.  Otherwise each check would read the file and name its fault.
    may = installation.pipeline.capabilities
    examined = examine(installation, checks())
    if as_json:
        print_json({"checks": [check.to_wire() for check in examined], "capabilities": may})
    else:
        show(stdout(), examined, may)
    if any(check.wrong or check.skipped for check in examined):
        raise typer.Exit(FINDINGS)


def _running(check: RunningCheck, installation: Installation) -> Iterator[Finding]:
    return check(installation.running())


def examine(installation: Installation, checks: Mapping[str, Check]) -> list[Examined]:
    """Make every check, whatever the others find."""
    from redis import RedisError

    from config.redis_client import explained
    from monitoring.checks import Finding

    examined = []
    for name, check in checks.items():
        findings: list[Finding] = []
        skipped = None
        try:
            findings.extend(check(installation))
        except ServiceError as error:
            skipped = str(error)
        except RedisError as error:
            skipped = str(explained(error))
        except Exception as error:  # costs this one check alone
            message = f"{type(error).__name__}: {error}".partition("\n")[0][:LONGEST_ERROR]
            findings.append(
                Finding(
                    f"this check failed: {message}",
                    "mend what the error names; if it is not yours, report it",
                )
            )
        examined.append(Examined(name, tuple(findings), skipped))
    return examined


def show(console: Console, examined: list[Examined], capabilities: Sequence[str]) -> None:
    """Print the findings and the capabilities of the stores; a single line for a healthy installation."""
    from rich.padding import Padding

    findings = [{"check": check.name, **asdict(finding)} for check in examined for finding in check.findings]
    if findings:
        console.print(findings_table(findings))
        console.print()
    skipped = [check for check in examined if check.skipped]
    for why in dict.fromkeys(check.skipped for check in skipped):
        names = ", ".join(check.name for check in skipped if check.skipped == why)
        console.print(Text(f"not looked at: {names}", "dim"))
        console.print(Padding(Text(str(why), "dim"), (0, 0, 0, 2)))
    may = f" · rights on stores: {' '.join(capabilities)}"
    wrong = sum(len(check.wrong) for check in examined)
    healthy = sum(not check.wrong and not check.skipped for check in examined)
    if wrong or skipped:
        console.print(Text(f"{wrong:,} to mend · {healthy} of {len(examined)} checks are well{may}", "dim"))
    else:
        console.print(Text.assemble(("well", "green"), (f" · {healthy} checks, nothing to mend{may}", "dim")))
