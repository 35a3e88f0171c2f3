"""How requests are published, and the options that Celery's command line can change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from cli.doctor.reports import read_reports
from cli.installation import Installation, NotRunning
from config.celery import is_redis
from monitoring.checks import CHECKS, Finding


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


def cells(installation: Installation) -> Iterator[Finding]:
    """What is wrong with the Redis and the processes of the other cells."""
    cells = installation.cells
    own = installation.settings.cell_at(installation.redis_url or "")
    if cells and own is None:
        yield Finding(
            "CHORALE_REDIS_URL is the Redis of no cell", "set it to one of the addresses of CHORALE_CELLS"
        )
    for name, cell in cells.items():
        if name == own:
            continue
        try:
            running = cell.running()
        except NotRunning as error:
            yield Finding(f"cell {name}: {error.what}", error.mend)
            continue
        for check in CHECKS.values():
            for finding in check(running):
                yield replace(finding, what=f"cell {name}: {finding.what}")
