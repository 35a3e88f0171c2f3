"""Celery's settings in the running workers.  The join and the work of a stopped worker depend on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from cli.doctor.finding import Finding
from cli.doctor.reports import read_reports
from cli.installation import Installation
from config.celery import BACKEND, is_redis, needs_acknowledgement
from monitoring.heartbeats import Heartbeat
from tasks.celery_internals.visibility import BINDINGS


@dataclass(frozen=True, slots=True)
class Rule:
    setting: str
    expected: Any
    why: str
    """What happens with another value."""
    holds: Callable[[Any], bool] | None = None
    """Tells whether a value is right, if values other than the expected one can be right."""
    applies: Callable[[Heartbeat], bool] = lambda _: True

    def is_kept(self, value: Any) -> bool:
        return bool(self.holds(value)) if self.holds else bool(value == self.expected)


def _short(value: Any) -> bool:
    return isinstance(value, int | float) and 0 < value <= 60


def _acknowledges(report: Heartbeat) -> bool:
    return needs_acknowledgement(report.queues) or not report.about["settings"].get("lean", True)


RULES = (
    Rule("result_backend", BACKEND, "the chord would be joined by Celery, which can wait for ever"),
    Rule("task_acks_late", True, "what a stopped worker had begun would be lost"),
    Rule("ack_emulation", True, "documents to index would be lost with their worker", applies=_acknowledges),
    Rule("visibility_timeout", 60, "what a killed worker had begun comes back too early or too late"),
    Rule("unacked_restore_interval", 5, "what a killed worker had begun comes back minutes late"),
    Rule("unacked_restore_throttle", 1, "what a killed worker had begun comes back minutes late"),
    Rule("prefetch", 1, "it hoards messages that other workers could take"),
    Rule("worker_disable_prefetch", False, "it waits a second or two after every task"),
    Rule("accept_content", ["json"], "a message could bring more than data"),
    Rule("task_serializer", "json", "other workers refuse what it sends"),
    Rule("result_serializer", "json", "clients cannot read what it writes"),
    Rule("task_ignore_result", True, "every task leaves a result that nobody reads"),
    Rule("result_backend_thread_safe", True, "every thread opens connections of its own"),
    Rule("redis_socket_timeout", "60 s or less", "a silent Redis would hold it for minutes", holds=_short),
    Rule("socket_timeout", "60 s or less", "a silent broker would hold it for ever", holds=_short),
    Rule("priority_steps", [0], "it looks for messages in lists that nobody writes"),
    Rule(
        "worker_proc_alive_timeout",
        "120 s or more",
        "a replaced process would be killed while it loads its model, again and again",
        holds=lambda value: isinstance(value, int | float) and value >= 120,
    ),
    Rule("task_create_missing_queues", False, "no worker would read a misspelt queue"),
    Rule(
        "worker_deduplicate_successful_tasks", False, "a part that comes again after a crash is never counted"
    ),
    Rule(
        "pool",
        "solo or thread",
        "models and connections do not survive a fork",
        holds=lambda value: value in ("solo", "thread"),
    ),
)
_OF_REDIS = {rule.setting for rule in RULES[2:6]} | {"socket_timeout", "priority_steps"}


def workers(installation: Installation) -> Iterator[Finding]:
    on_redis = is_redis(installation.settings.broker_url or "redis://")
    for report in read_reports(installation.running_redis()):
        has = report.about.get("celery")
        if has is None:
            continue
        for rule in RULES:
            if not rule.applies(report) or (rule.setting in _OF_REDIS and not on_redis):
                continue
            if not rule.is_kept(has.get(rule.setting)):
                yield Finding(
                    f"{report.name} has {rule.setting} = {has.get(rule.setting)!r} instead of {rule.expected!r}: "
                    f"{rule.why}",
                    f"start it as `chorale worker {' '.join(queue.removeprefix('chorale.') for queue in report.queues)}`"
                    " of this version",
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


def events(installation: Installation) -> Iterator[Finding]:
    redis = installation.running_redis()
    # An operator who turned the events off has chosen so: Flower then shows only workers and queues.
    is_chosen = "task_events" in installation.settings.model_fields_set
    if is_chosen or not redis.exists(f"{BINDINGS}.celeryev"):
        return
    silent = [
        report.name
        for report in read_reports(redis)
        if not report.about.get("celery", {}).get("worker_send_task_events", True)
    ]
    if silent:
        yield Finding(
            f"somebody watches Celery's events (Flower), and {', '.join(silent)} send none of their task events",
            "set CHORALE_TASK_EVENTS=true and restart them; or set it to false, for them and for this command, if it is "
            "enough to see workers and queues",
        )
