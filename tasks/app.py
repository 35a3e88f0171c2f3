"""The Celery application: `celery -A tasks.app worker -Q chorale.bm25`, `celery -A tasks.app flower`."""

from __future__ import annotations

from functools import cache
from typing import Any

from celery import Celery, signals

from config.celery import celery_settings, needs_acknowledgement
from config.logging import set_up_logging
from tasks import fuse, index, retrieve, search
from tasks.about import about
from tasks.fanout import Fanout
from tasks.heartbeat import Heartbeat
from tasks.intake import AMQP
from tasks.resources import Resources
from tasks.warming import warm


def make_app(resources: Resources, *, queues: tuple[str, ...] = ()) -> Celery:
    """An app with all tasks; `queues` are those that this process works on, none for a caller.

    Its tasks find what they use as `app.resources` and `app.fanout`: an app and its settings belong together.
    """
    settings = resources.settings
    app = Celery("chorale", amqp=AMQP, set_as_current=False)
    app.conf.update(
        celery_settings(
            redis_url=resources.redis_url,
            broker_url=settings.broker_url,
            queues=resources.pipeline.queues,
            acknowledged=needs_acknowledgement(queues) or not settings.lean,
            task_events=settings.task_events,
            soft_shutdown_s=settings.soft_shutdown_s,
            redis_socket_timeout_s=settings.redis_socket_timeout_s,
            redis_connect_timeout_s=settings.redis_connect_timeout_s,
        )
    )
    app.resources = resources
    app.fanout = Fanout(app, resources.ledger, resend_after_s=settings.resend_after_s, lean=settings.lean)
    for module in (retrieve, search, fuse, index):
        module.register(app)
    return app


@cache
def process_app() -> Celery:
    """The one app of a process that was started by Celery's own command, which may be a worker."""
    app = make_app(Resources.from_environment())

    def warm_up(**_: object) -> None:
        # In the process that will run the tasks, and before it takes the first one: models do not survive a fork.
        settings = app.resources.settings
        set_up_logging(level=settings.log_level, log_format=settings.log_format, texts=settings.log_texts)
        warm(app, tuple(app.amqp.queues.consume_from))

    def ready(sender: Any, **_: object) -> None:
        queues = tuple(app.amqp.queues.consume_from)
        heartbeat = Heartbeat(app.resources.redis, sender.hostname, queues, hung_after_s=None)
        heartbeat.about, heartbeat.ready = about(app.resources, worker=sender.controller), True
        heartbeat.start()
        signals.worker_shutdown.connect(lambda **_: heartbeat.stop(), weak=False)

    signals.worker_process_init.connect(warm_up, weak=False)
    signals.worker_ready.connect(ready, weak=False)
    return app


def __getattr__(name: str) -> Any:
    # Celery's `-A tasks.app` asks for `app`; importing this module alone reads no settings.
    if name in ("app", "celery"):
        return process_app()
    raise AttributeError(name)
