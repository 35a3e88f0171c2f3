"""The variables of this shell, who may read its files, and whether all processes use the same servers."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from cli.doctor.reports import read_reports
from cli.installation import Installation
from config.settings import unknown_variables
from monitoring.checks import Finding
from records.database import trail_file
from search.documents.file_reading import file_of
from tasks.worker.heartbeat import addresses

_DATABASES = {"the audit trail": "CHORALE_AUDIT_URL", "the documents' database": "CHORALE_DOCUMENTS_URL"}
_VARIABLES = {**_DATABASES, "the broker": "CHORALE_BROKER_URL"}


def variables(_: Installation) -> Iterator[Finding]:
    for name, intended in unknown_variables(os.environ).items():
        better = f"set {intended} instead" if intended else "docs/reference/settings.md lists all settings"
        yield Finding(f"the variable {name} is no setting and has no effect", f"unset it; {better}")


def private(installation: Installation) -> Iterator[Finding]:
    """The home, and SQLite files outside of it."""
    settings = installation.settings
    paths = [settings.home]
    for file in (trail_file(settings.audit_database_url), file_of(settings.documents_database_url)):
        # A file in the home is protected by the mode of the home itself.
        if file is not None and settings.home not in file.absolute().parents:
            paths.append(file)
    for path in dict.fromkeys(paths):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        if status.st_uid not in (os.geteuid(), 0):
            yield Finding(
                f"{path} belongs to the user {status.st_uid}, who can read and replace everything in it",
                f"chown -R {os.geteuid()} {path}, or use a folder of your own",
            )
        # A folder that a group shares on purpose has the setgid bit.  A folder of root is a volume mounted for this user.
        is_shared = status.st_mode & stat.S_ISGID
        if status.st_uid == os.geteuid() and status.st_mode & (0o007 if is_shared else 0o077):
            yield Finding(
                f"other users of this machine may use {path} (its mode is {stat.S_IMODE(status.st_mode):04o})",
                f"chmod -R {'o=' if is_shared else 'go='} {path}",
            )
        for above in path.resolve().parents:
            if above.stat().st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
                yield Finding(
                    f"everybody on this machine may write to {above}, and so put another folder in the place of {path}",
                    f"chmod o-w {above}",
                )


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
        # The documents are usually in the database of the audit trail, which is reported once.
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
                f"set CHORALE_DATABASE_URL, or {variable}, to a PostgreSQL for every process, and restart",
            )


def _identity(address: str) -> tuple[str, str, str]:
    """Kind of the server, name of the database or virtual host, and options of the address."""
    parts = urlsplit(address)
    return parts.scheme.removeprefix("py")[:4], unquote(parts.path.removeprefix("/")) or "/", parts.query
