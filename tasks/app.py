"""The app for Celery's own command line: `celery -A tasks.app flower`, `celery -A tasks.app worker`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from celery import Celery, signals

from config.logging import set_up_logging
from models.errors import WrongDeclaration
from tasks.celery_internals.flower_start import prepare_flower
from tasks.registration import make_app
from tasks.wiring.resources import Resources
from tasks.worker.heartbeat import Heartbeat, self_report
from tasks.worker.warming import warm


@cache
def process_app() -> Celery:
    os.umask(0o077)  # as in cli/app.py
    app = make_app(Resources.from_environment())

    def log(**_: object) -> None:
        # Instead of Celery's own logging, which would write texts of strangers as they are.
        settings = app.resources.settings
        set_up_logging(level=settings.log_level, log_format=settings.log_format, texts=settings.log_texts)

    def begin(sender: str, options: Mapping[str, Any], **_: object) -> None:
        # Before the pool forks.
        try:
            app.resources.pipeline.check_queues(options["queues"] or ())
        except WrongDeclaration as error:
            raise SystemExit(f"chorale: {error}") from None
        app.resources.worker_name = sender if app.resources.settings.task_events else None

    def warm_up(**_: object) -> None:
        # In the process that runs the tasks, since models do not survive a fork, and before the first task.
        log()
        warm(app, tuple(app.amqp.queues.consume_from))

    def ready(sender: Any, **_: object) -> None:
        queues = tuple(app.amqp.queues.consume_from)
        heartbeat = Heartbeat(app.resources.redis, sender.hostname, queues, hung_after_s=None)
        heartbeat.about = self_report(app.resources, worker=sender.controller)
        heartbeat.ready = True
        heartbeat.start()
        signals.worker_shutdown.connect(lambda **_: heartbeat.stop(), weak=False)

    def imported(**_: object) -> None:
        prepare_flower(app, remote_control=app.resources.settings.remote_control)

    signals.setup_logging.connect(log, weak=False)
    signals.celeryd_init.connect(begin, weak=False)
    signals.import_modules.connect(imported, weak=False)
    signals.worker_process_init.connect(warm_up, weak=False)
    signals.worker_ready.connect(ready, weak=False)
    return app


def __getattr__(name: str) -> Any:
    # Made when Celery asks for it: importing this module must not read the settings.
    if name in ("app", "celery"):
        return process_app()
    raise AttributeError(name)
