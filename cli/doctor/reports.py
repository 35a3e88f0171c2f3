"""What the running processes say of themselves (`tasks.worker.self_report`), beside what this program has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chorale_client.keys import HEARTBEAT

from cli.doctor.finding import Finding
from cli.installation import Installation

if TYPE_CHECKING:
    from redis import Redis


@dataclass(frozen=True, slots=True)
class Report:
    """One ready process."""

    name: str
    queues: tuple[str, ...]
    said: Mapping[str, Any] = field(default_factory=dict)
    """Empty where a version wrote it that says nothing of itself."""


def read_reports(redis: Redis) -> list[Report]:
    keys = sorted(redis.scan_iter(HEARTBEAT + "*", count=1_000))
    reports = []
    for key, value in zip(keys, redis.mget(keys) if keys else (), strict=True):
        try:
            beat = json.loads(value or b"null")
            if beat["ready"] is True:
                name = key.decode().removeprefix(HEARTBEAT)
                reports.append(Report(name, tuple(beat["queues"]), beat.get("about") or {}))
        except (ValueError, KeyError, TypeError):
            continue
    return reports


def versions(around: Installation) -> Iterator[Finding]:
    from tasks.worker.self_report import versions as own_versions

    own = own_versions()
    for report in read_reports(around.running_redis()):
        theirs: dict[str, str] = report.said.get("versions", {})
        differing = [
            f"{name} {theirs.get(name)} (here {own[name]})" for name in own if theirs.get(name) != own[name]
        ]
        if report.said and differing:
            yield Finding(
                f"{report.name} runs on {', '.join(differing)}",
                "install the same versions everywhere (`make install`) and restart the older ones",
            )
        elif not report.said:
            yield Finding(
                f"{report.name} does not say what it runs on: it is of an older version",
                "update and restart it",
            )


def settings(around: Installation) -> Iterator[Finding]:
    from tasks.worker.self_report import shared_settings

    own = shared_settings(around.settings)
    for report in read_reports(around.running_redis()):
        theirs: dict[str, Any] = report.said.get("settings", own)
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


def declarations(around: Installation) -> Iterator[Finding]:
    from tasks.worker.self_report import pipeline_fingerprint

    own = pipeline_fingerprint(around.pipeline)
    reports = read_reports(around.running_redis())
    others = [report.name for report in reports if report.said.get("pipeline", own) != own]
    if others:
        yield Finding(
            f"another pipeline file than this program's have {', '.join(others)}",
            "set CHORALE_PIPELINE_FILE to the same declaration everywhere (addresses and the files of certificates may "
            "differ), and restart",
        )


def folders(around: Installation) -> Iterator[Finding]:
    import socket

    home = str(around.settings.home)
    for report in read_reports(around.running_redis()):
        # Another host may have the same folder mounted elsewhere.
        if report.said.get("host") == socket.gethostname() and report.said["home"] != home:
            yield Finding(
                f"{report.name} works on {report.said['home']}, and this program on {home}",
                "set CHORALE_HOME to the same folder everywhere, and restart",
            )


def models(around: Installation) -> Iterator[Finding]:
    reports = [report for report in read_reports(around.running_redis()) if report.said.get("models")]
    if not reports:
        return
    own = around.resources.fingerprints
    for report in reports:
        # What else answers depend on are settings and the pipeline file, compared above.
        if any(report.said["models"].get(name) != own.get(name) for name in ("embedder", "questions")):
            yield Finding(
                f"{report.name} has other weights than {around.settings.embedder} has here",
                "put the same model everywhere (or set CHORALE_EMBEDDER to it), and restart",
            )
