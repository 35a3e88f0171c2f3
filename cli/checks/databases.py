"""The databases that every host of an installation must reach."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import make_url

from cli.checks.finding import Finding
from cli.checks.reports import read_reports
from cli.surroundings import Surroundings


def shared(around: Surroundings) -> Iterator[Finding]:
    reports = read_reports(around.running_redis())
    hosts = sorted({str(report.said["host"]) for report in reports if "host" in report.said})
    if len(hosts) < 2:
        return
    settings = around.settings
    addresses = {"the audit trail": ("CHORALE_AUDIT_URL", settings.audit_database_url)}
    if around.resources.has_document_table:
        addresses["the table of documents"] = ("CHORALE_DOCUMENTS_URL", settings.documents_database_url)
    for what, (variable, address) in addresses.items():
        url = make_url(address)
        if url.get_backend_name() == "sqlite":
            yield Finding(
                f"{what} is in a file ({url.database}), and processes run on {len(hosts)} hosts "
                f"({', '.join(hosts)}): each host has a file of its own",
                f"set {variable} to a PostgreSQL for every process, and restart",
            )
