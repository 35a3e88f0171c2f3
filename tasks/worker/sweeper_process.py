"""The process `chorale sweeper`: it sweeps, drains the outbox into the audit tables, and feeds bulk jobs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING

from celery import Celery
from redis.exceptions import RedisError
from structlog import get_logger

from config.logging import set_up_logging
from config.redis_client import refuse_cluster
from config.secret_keys import audit_key
from models.declarations.extensions import Kinds
from tasks.celery_internals.event_sender import EventSender
from tasks.registration import make_app
from tasks.sweeping.sweeper import Sweeper
from tasks.wiring.pipeline import BUILT_IN
from tasks.wiring.resources import Resources
from tasks.worker.heartbeat import Heartbeat, self_report
from tasks.worker.warming import collect_seldom

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from models import duty

log = get_logger("chorale.sweeper")

Duty = Callable[[threading.Event], None]
"""Runs in a thread until the event is set."""
DutiesInSql = Callable[["Resources", "Engine", Callable[[], None]], Iterable["duty.Duty"]]
"""Makes duties that use the audit database, with what brings it up."""

SCHEMA_WAIT_S = 15.0
"""How long a duty that starts waits for the first upgrade of the audit database, which takes seconds on a busy machine, before
the log says so."""
_ENDING = (signal.SIGTERM, signal.SIGINT)


def run(
    *,
    name: str,
    only: str | None = None,
    kinds: Kinds = BUILT_IN,
    also: DutiesInSql = lambda *_: (),
) -> None:
    """Run until told to stop; `only` is `sweep` or `drain`, to do one of the two, and `also` makes further duties.  Raises
    UnsupportedRedis."""
    resources = Resources.from_environment(kinds)
    settings = resources.settings
    set_up_logging(level=settings.log_level, log_format=settings.log_format, texts=settings.log_texts)
    refuse_cluster(resources.redis, resources.redis_url)
    stop = threading.Event()
    # Blocked here, and so in every thread, a signal waits for `sigwait`; a handler would run only once the main thread wakes.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    heartbeat = Heartbeat(resources.redis, name, [], hung_after_s=None, keep=resources.signer.keep)
    heartbeat.start()
    duties: list[Duty] = []
    app = make_app(resources)
    if only != "drain":
        duties.append(Sweeper(resources, app.fanout, interval_s=settings.sweep_interval_s).run)
    if only == "drain" or (only is None and settings.drain):
        heartbeat.missing = ["the audit trail's database has not answered yet"]

        def ready() -> None:
            heartbeat.ready, heartbeat.missing = True, ()
            # A full Redis refuses the heartbeat; the heartbeat's thread tries again, and logs it.
            with suppress(RedisError):
                heartbeat.beat()

        duties += _duties_in_sql(app, name, also, ready)
    else:
        heartbeat.ready = True
    threads = [threading.Thread(target=duty, args=(stop,)) for duty in duties]
    for thread in threads:
        thread.start()
    collect_seldom()
    heartbeat.about = self_report(resources)
    log.info("ready", name=name, duties=len(duties))
    signal.sigwait(_ENDING)
    stop.set()
    for thread in threads:
        thread.join(timeout=5)
    heartbeat.stop()


def _duties_in_sql(app: Celery, name: str, also: DutiesInSql, prepared: Callable[[], None]) -> Iterator[Duty]:
    """The audit trail with the events for Flower, the copy of the rules, and bulk jobs.  `prepared` is called when the database
    has its newest schema."""
    # Here, since SQLAlchemy and Alembic take a second to import.
    from sqlalchemy.exc import SQLAlchemyError

    from records.audit.deletion import Retention
    from records.audit.drainer import Drainer
    from records.audit.months import MonthsAhead, add_months
    from records.database import open_database, upgrade
    from records.rules.store import RuleCopying, RuleStore
    from tasks.callbacks.request_ends import RequestEnds
    from tasks.jobs.feeder import Feeder
    from tasks.jobs.job_events import JobEvents
    from tasks.service_calls import ServiceCalls
    from tasks.sweeping.ended_listeners import listeners, notify
    from tasks.sweeping.request_events import RequestEvents
    from tasks.sweeping.shadows import Shadows

    resources: Resources = app.resources
    settings = resources.settings
    url = settings.audit_database_url
    events = sender = None
    if settings.task_events:
        sender = EventSender(app, name)
        names = [branch.name for branch in resources.pipeline.branches]
        events = RequestEvents(resources.redis, sender, branches=names, with_texts=settings.log_texts)
        yield events.run
    shadows = None
    if declared := resources.pipeline.shadow:
        shadows = Shadows(app, declared, open_database(url, must_exist=True))
        yield shadows.run

    months = open_database(url, must_exist=True)

    # In each duty's own thread, so that requests are ended although their rows cannot be written yet.
    # Once for all: a file that is removed later must not be replaced by an empty one.
    @cache
    def prepare() -> None:
        upgrade(url, wait_s=SCHEMA_WAIT_S)
        # Before the first row is written; `MonthsAhead` logs what is wrong.
        with suppress(SQLAlchemyError):
            add_months(months)
        prepared()

    yield Drainer(
        resources.redis,
        open_database(url, must_exist=True),
        keep_texts=settings.audit_texts,
        hash_key=None if settings.audit_texts else audit_key(settings),
        hits_share=settings.audit_hits_share,
        prepare=prepare,
        on_written=partial(
            notify, [*listeners(resources), *(each.ended for each in (events, shadows) if each)]
        ),
    ).run
    yield MonthsAhead(months, prepare).run
    if keep_s := settings.audit_keep_s:
        yield Retention(open_database(url, must_exist=True), keep_s=keep_s, prepare=prepare).run
    yield RequestEnds(app).run
    yield RuleCopying(resources.redis, RuleStore(open_database(url, must_exist=True)), prepare).run
    yield Feeder(app, prepare, JobEvents(sender)).run
    yield ServiceCalls(resources, prepare).run
    for further in also(resources, open_database(url, must_exist=True), prepare):
        yield further.run
