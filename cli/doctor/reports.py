"""What a check of `chorale doctor` yields, and the checks that compare the self-reports of the running processes
(`tasks.worker.heartbeat`) with this program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from redis import Redis

from cli.installation import Installation, other_homes
from models.errors import StageFailure
from monitoring.checks import Finding
from monitoring.heartbeats import Heartbeat, read_heartbeats
from tasks.worker.heartbeat import pipeline_fingerprint, shared_settings
from tasks.worker.heartbeat import versions as own_versions


def finding_of(failure: StageFailure, *, where: str = "", mend: str = "see the store's log") -> Finding:
    """The failure of a store, whose message usually ends with `; ` and what to do about it; if not, `mend` is."""
    what, semicolon, remedy = failure.detail.rpartition("; ")
    return Finding(where + what, remedy) if semicolon else Finding(where + failure.detail, mend)


Check: TypeAlias = Callable[[Installation], Iterator[Finding]]
"""Raises ServiceError where the check cannot be made for a reason that another check finds."""


def read_reports(redis: Redis) -> list[Heartbeat]:
    """The heartbeats of the processes that are ready; only those contain a self-report."""
    return [beat for beat in read_heartbeats(redis) if beat.is_ready]


def _differing(
    installation: Installation, part: str, own: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The processes that report other values than this program has, with these values."""
    for report in read_reports(installation.running_redis()):
        reported = report.about.get(part) or own
        if values := {name: reported.get(name) for name in own if reported.get(name) != own[name]}:
            yield report.name, values


def versions(installation: Installation) -> Iterator[Finding]:
    own = own_versions()
    for process, values in _differing(installation, "versions", own):
        runs_on = ", ".join(f"{name} {value} (here {own[name]})" for name, value in values.items())
        mend = "install the same versions everywhere (`make install`) and restart the older ones"
        yield Finding(f"{process} runs on {runs_on}", mend)


def settings(installation: Installation) -> Iterator[Finding]:
    own = shared_settings(installation.settings)
    for process, values in _differing(installation, "settings", own):
        has = ", ".join(
            f"CHORALE_{name.upper()}={value} (here {own[name]})" for name, value in values.items()
        )
        mend = "give every process the same environment, this shell too, and restart those that differ"
        yield Finding(f"{process} has {has}", mend)


def declarations(installation: Installation) -> Iterator[Finding]:
    own = pipeline_fingerprint(installation.pipeline)
    reports = read_reports(installation.running_redis())
    if others := [report.name for report in reports if report.about.get("pipeline", own) != own]:
        yield Finding(
            f"{', '.join(others)} have another pipeline file than this program",
            "set CHORALE_PIPELINE_FILE to the same declaration everywhere (addresses and the files of certificates may "
            "differ), and restart",
        )


def folders(installation: Installation) -> Iterator[Finding]:
    for process, home in other_homes(installation).items():
        yield Finding(
            f"{process} works on {home}, and this program on {installation.settings.home}",
            "set CHORALE_HOME to the same folder everywhere, and restart",
        )


def models(installation: Installation) -> Iterator[Finding]:
    if not any(report.about.get("models") for report in read_reports(installation.running_redis())):
        return  # reading our own model takes seconds
    # Answers also depend on settings and the pipeline file, which other checks compare.
    own = {name: installation.resources.fingerprints.get(name) for name in ("embedder", "questions")}
    for process, _ in _differing(installation, "models", own):
        yield Finding(
            f"{process} has other weights than {installation.settings.embedder} has here, or another precision",
            "put the same model everywhere (or set CHORALE_EMBEDDER to it) in the same precisions, and restart",
        )
