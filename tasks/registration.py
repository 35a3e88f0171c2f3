"""The Celery application with all tasks of the service."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

from celery import Celery, signals
from chorale_client.connections.failover import follow_primary

from config.celery import celery_settings, needs_acknowledgement
from tasks.celery_internals.consuming import AMQP
from tasks.indexing import index_tasks
from tasks.jobs import answering
from tasks.request import batch, retrieve
from tasks.request.fanout import Fanout
from tasks.wiring.resources import Resources


def make_app(resources: Resources, *, queues: tuple[str, ...] = ()) -> Celery:
    """An app with all tasks; `queues` are those that this process works on, none for a caller.

    Its tasks find what they use as `app.resources` and `app.fanout`.  The result backend calls `app.answer_unread` and
    `app.cancel_unread` for messages that no task reads.  An app and its settings belong together.
    """
    settings = resources.settings
    app = Celery("chorale", amqp=AMQP, set_as_current=False)
    app.conf.update(
        celery_settings(
            settings,
            redis_url=resources.redis_url,
            queues=resources.pipeline.queues,
            acknowledged=needs_acknowledgement(queues) or not settings.lean,
        )
    )
    app.resources = resources
    follow_primary(app.backend.client.connection_pool)
    app.fanout = Fanout(app, resources.ledger, resend_after_s=settings.resend_after_s, lean=settings.lean)
    app.answer_unread = partial(retrieve.answer_unread, resources)
    app.cancel_unread = partial(retrieve.cancel_unread, resources)

    def failed(sender: Any, task_id: str, exception: BaseException, **_: object) -> None:
        # Celery tells nobody else of an error before the task begins, such as arguments that are no object.
        if sender.app is app:
            app.backend.mark_as_failure(task_id, exception, request=SimpleNamespace(task=sender.name))

    app.failed_before_the_task = failed  # as long as the app is there
    signals.task_internal_error.connect(failed)
    for module in (retrieve, batch, index_tasks, answering):
        module.register(app)
    return app
