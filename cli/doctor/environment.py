"""The variables of this shell, and whether all processes use the same databases, the same broker and the same stores."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from cli.doctor.finding import Finding
from cli.doctor.reports import read_reports
from cli.installation import Installation
from config.settings import unknown_variables
from tasks.worker.heartbeat import addresses

_DATABASES = {"the audit trail": "CHORALE_AUDIT_URL", "the documents' database": "CHORALE_DOCUMENTS_URL"}
_VARIABLES = {**_DATABASES, "the broker": "CHORALE_BROKER_URL"}


def variables(_: Installation) -> Iterator[Finding]:
    for name, intended in unknown_variables(os.environ).items():
        better = f"set {intended} instead" if intended else "docs/reference/settings.md lists all settings"
        yield Finding(f"the variable {name} is no setting and has no effect", f"unset it; {better}")


def same_addresses(installation: Installation) -> Iterator[Finding]:
    """Compare the whole addresses of the processes.

    This program may reach a server under another name than the processes do.  Of its own addresses only the kind and the name of
    the database or virtual host are compared.  The addresses of its stores are not compared.
    """
    reports = [report for report in read_reports(installation.running_redis()) if "addresses" in report.about]
    own = addresses(installation.resources)
    is_near = any(report.about["host"] == socket.gethostname() for report in reports)
    compared: list[dict[str, list[str]]] = []
    for what in dict.fromkeys(name for report in reports for name in report.about["addresses"]):
        names_by_address: dict[str, list[str]] = {}
        for report in reports:
            if address := report.about["addresses"].get(what):
                names_by_address.setdefault(address, []).append(report.name)
        # They are usually in the database of the audit trail, which is reported once.
        if names_by_address in compared:
            continue
        compared.append(names_by_address)
        first, *others = names_by_address
        if others:
            each = "; ".join(f"{', '.join(names)}: {address}" for address, names in names_by_address.items())
            yield Finding(
                f"not every process uses the same address for {what}: {each}",
                f"give all of them the same {_VARIABLES.get(what, 'pipeline file')}, and restart those that differ",
            )
        elif what in _VARIABLES and (is_near or not first.startswith("sqlite:")):
            here = own.get(what, "nothing")
            if _identity(here) != _identity(first):
                yield Finding(
                    f"this program uses {here} for {what}, and the processes use {first}",
                    f"set {_VARIABLES[what]} in this shell to the value that the processes have",
                )


def shared_databases(installation: Installation) -> Iterator[Finding]:
    """Find a database in a file where processes run on several hosts: each host has a file of its own."""
    reports = read_reports(installation.running_redis())
    hosts = sorted({str(report.about["host"]) for report in reports if "host" in report.about})
    if len(hosts) < 2:
        return
    all_addresses = [
        addresses(installation.resources),
        *(report.about.get("addresses", {}) for report in reports),
    ]
    for what, variable in _DATABASES.items():
        files = (own[what] for own in all_addresses if own.get(what, "").startswith("sqlite:"))
        if file := next(files, None):
            yield Finding(
                f"{what} is in a file ({file.removeprefix('sqlite:///')}), and processes run on {len(hosts)} hosts "
                f"({', '.join(hosts)}): each host has a file of its own",
                f"set {variable} to a PostgreSQL for every process, and restart",
            )


def _identity(address: str) -> tuple[str, str, str]:
    """Kind of the server, name of the database or virtual host, and options of the address."""
    parts = urlsplit(address)
    return parts.scheme.removeprefix("py")[:4], unquote(parts.path.removeprefix("/")) or "/", parts.query
