"""The worker and sweeper processes, and the messages that wait for them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from chorale_client.keys import SWEEPER
from chorale_client.wire_names import WIRE_VERSION

from cli.doctor.reports import Finding, read_reports
from cli.installation import Installation
from config.celery import is_redis
from monitoring.heartbeats import read_heartbeats
from monitoring.queues import read_queues
from tasks.celery_internals.visibility import BINDINGS

STALE_S = 5.0
"""A worker writes its heartbeat every second; the key expires after ten."""
LONG_QUEUE = 100
"""Waiting messages; a process takes some hundred in a second."""
_LOOKS, _LOOK_EVERY_S = 20, 0.05


def queues_are_served(installation: Installation) -> Iterator[Finding]:
    workers = read_heartbeats(installation.running_redis())
    for queue in installation.pipeline.queues:
        serving = [worker for worker in workers if queue in worker.queues]
        name = queue.removeprefix("chorale.")
        if not serving:
            yield Finding(
                f"nobody works on {queue}", f"start `chorale worker {name}`, or all of it: `chorale up`"
            )
        elif not any(worker.is_ready for worker in serving):
            yield Finding(
                f"the worker of {queue} is not ready yet ({serving[0].name})",
                "wait until its model is loaded; if that does not help, its log says why",
            )
        else:
            for worker in serving:
                if worker.age_s > STALE_S:
                    yield Finding(
                        f"{worker.name} has given no sign of life for {worker.age_s:.0f} s (process {worker.pid})",
                        "`chorale up` starts it again by itself; elsewhere stop it and start it again",
                    )


def sweeper(installation: Installation) -> Iterator[Finding]:
    redis = installation.running_redis()
    if not any(not worker.queues and worker.is_ready for worker in read_heartbeats(redis)):
        yield Finding(
            "no sweeper process runs: nobody fills the audit tables",
            "start `chorale sweeper`, or all of it: `chorale up`",
        )
    # Between two leases of sweepers there is a moment without one.
    for _ in range(_LOOKS):
        if redis.exists(SWEEPER):
            return
        time.sleep(_LOOK_EVERY_S)
    yield Finding(
        "nobody sweeps: a request whose worker dies would not end", "start `chorale sweeper`, or `chorale up`"
    )


def queue_lengths(installation: Installation) -> Iterator[Finding]:
    redis = installation.running_redis()
    broker_url = installation.settings.broker_url
    for queue, state in read_queues(redis, installation.pipeline.queues, broker_url=broker_url).items():
        if state.length is not None and state.length > LONG_QUEUE:
            name = queue.removeprefix("chorale.")
            yield Finding(
                f"{state.length:,} messages wait on {queue}",
                f"more processes: `chorale up --processes {name}=2`; or see in its log why it is slow",
            )


def wire_versions(installation: Installation) -> Iterator[Finding]:
    for worker in read_heartbeats(installation.running_redis()):
        if worker.wire is not None and worker.wire != WIRE_VERSION:
            yield Finding(
                f"{worker.name} writes version {worker.wire} of the wire format, this program {WIRE_VERSION}",
                "update the older of the two and restart its workers",
            )


def chords(installation: Installation) -> Iterator[Finding]:
    """Plain chords are several times slower; they are intended only where the broker is no Redis."""
    from tasks.registration import make_app

    why = make_app(installation.resources).fanout.why_plain
    if why is not None and is_redis(installation.settings.broker_url or "redis://"):
        yield Finding(
            f"requests are published as plain chords, several times slower: {why}",
            "one Redis database for ledger and broker (no CHORALE_BROKER_URL), CHORALE_LEAN not off, and the "
            "versions of requirements/base.txt",
        )


CELERY_OPTIONS: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "pool": (("solo", "thread"), "models and connections do not survive a fork"),
    "prefetch": ((1,), "it hoards messages that other workers could take"),
    "disable_prefetch": ((False,), "it waits a second or two after every task"),
}
"""The right values of what Celery's command line can change, and what happens with another value."""


def celery_options(installation: Installation) -> Iterator[Finding]:
    for report in read_reports(installation.running_redis()):
        options = report.about.get("worker_options", {})
        for name, (right, why) in CELERY_OPTIONS.items():
            if name in options and options[name] not in right:
                queues = " ".join(queue.removeprefix("chorale.") for queue in report.queues)
                yield Finding(
                    f"{report.name} runs with {name} = {options[name]!r} instead of {' or '.join(map(repr, right))}: {why}",
                    f"start it as `chorale worker {queues}`",
                )


def events(installation: Installation) -> Iterator[Finding]:
    redis = installation.running_redis()
    # An operator who turned the events off has chosen so: Flower then shows only workers and queues.
    is_chosen = "task_events" in installation.settings.model_fields_set
    if is_chosen or not redis.exists(f"{BINDINGS}.celeryev"):
        return
    silent = [
        report.name
        for report in read_reports(redis)
        if not report.about.get("worker_options", {}).get("task_events", True)
    ]
    if silent:
        yield Finding(
            f"somebody watches Celery's events (Flower), and {', '.join(silent)} send none of their task events",
            "set CHORALE_TASK_EVENTS=true and restart them; or set it to false, for them and for this command, if it is "
            "enough to see workers and queues",
        )
