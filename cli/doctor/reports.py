"""Compares the self-reports of the running processes (`tasks.worker.heartbeat`) with this program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from redis import Redis

from cli.doctor.finding import Finding
from cli.installation import Installation
from monitoring.heartbeats import Heartbeat, read_heartbeats


def read_reports(redis: Redis) -> list[Heartbeat]:
    """The heartbeats of the processes that are ready; only those contain a self-report."""
    return [beat for beat in read_heartbeats(redis) if beat.is_ready]


def versions(installation: Installation) -> Iterator[Finding]:
    from tasks.worker.heartbeat import versions as own_versions

    own = own_versions()
    for report in read_reports(installation.running_redis()):
        theirs: dict[str, str] = report.about.get("versions", {})
        differing = [
            f"{name} {theirs.get(name)} (here {own[name]})" for name in own if theirs.get(name) != own[name]
        ]
        if differing:
            yield Finding(
                f"{report.name} runs on {', '.join(differing)}",
                "install the same versions everywhere (`make install`) and restart the older ones",
            )


def settings(installation: Installation) -> Iterator[Finding]:
    from tasks.worker.heartbeat import shared_settings

    own = shared_settings(installation.settings)
    for report in read_reports(installation.running_redis()):
        theirs: dict[str, Any] = report.about.get("settings", own)
        differing = [
            f"CHORALE_{name.upper()}={theirs.get(name)} (here {value})"
            for name, value in own.items()
            if theirs.get(name) != value
        ]
        if differing:
            yield Finding(
                f"{report.name} has {', '.join(differing)}",
                "give every process the same environment, this shell too, and restart those that differ",
            )


def declarations(installation: Installation) -> Iterator[Finding]:
    from tasks.worker.heartbeat import pipeline_fingerprint

    own = pipeline_fingerprint(installation.pipeline)
    reports = read_reports(installation.running_redis())
    others = [report.name for report in reports if report.about.get("pipeline", own) != own]
    if others:
        yield Finding(
            f"{', '.join(others)} have another pipeline file than this program",
            "set CHORALE_PIPELINE_FILE to the same declaration everywhere (addresses and the files of certificates may "
            "differ), and restart",
        )


def folders(installation: Installation) -> Iterator[Finding]:
    import socket

    settings, stores = installation.settings, installation.pipeline.stores.values()
    databases = (settings.audit_database_url, settings.documents_database_url)
    if all(store.kind != "embedded" for store in stores) and not any(
        url.startswith("sqlite") for url in databases
    ):
        return
    home = str(settings.home)
    for report in read_reports(installation.running_redis()):
        # Another host may have the same folder mounted elsewhere.
        if report.about.get("host") == socket.gethostname() and report.about["home"] != home:
            yield Finding(
                f"{report.name} works on {report.about['home']}, and this program on {home}",
                "set CHORALE_HOME to the same folder everywhere, and restart",
            )


def models(installation: Installation) -> Iterator[Finding]:
    reports = [report for report in read_reports(installation.running_redis()) if report.about.get("models")]
    if not reports:
        return
    own = installation.resources.fingerprints
    for report in reports:
        # Answers also depend on settings and the pipeline file, which other checks compare.
        if any(report.about["models"].get(name) != own.get(name) for name in ("embedder", "questions")):
            yield Finding(
                f"{report.name} has other weights than {installation.settings.embedder} has here",
                "put the same model everywhere (or set CHORALE_EMBEDDER to it), and restart",
            )
