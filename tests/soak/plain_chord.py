"""The same branches in a plain Celery chord, for the same adversary.

Settings are Celery's defaults; `acks_late` is what people add for safety, here with a visibility timeout of seconds, so
that the messages of a killed worker are delivered again within the soak.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from celery import Celery, chord
from celery.exceptions import TimeoutError as NotInTime
from celery.platforms import SecurityWarning
from chorale_client.connections.urls import celery_url
from kombu import Queue

from tests.soak.questions import BRANCHES, documents
from tests.support.pipelines import failpoints
from tests.support.pipelines.failpoints import Place

FUSION = "fusion"
QUEUE = "soak.{name}"
VISIBLE_AGAIN_S = 30

_HERE = "tests.soak.plain_chord"
_BACKEND = "celery.backends.redis:RedisBackend"

PLACES: Mapping[str, Place] = {
    "publisher.after_publish": Place((f"{_HERE}:publish",), "after"),
    "branch.before_search": Place((f"{_HERE}:search",), "before"),
    "branch.after_search": Place((f"{_HERE}:search",), "after"),
    "branch.before_count": Place((f"{_BACKEND}.on_chord_part_return",), "before"),
    "branch.after_count": Place((f"{_BACKEND}.on_chord_part_return",), "after"),
    "fusion.before_fuse": Place((f"{_HERE}:fuse",), "before"),
    "fusion.after_fuse": Place((f"{_HERE}:fuse",), "after"),
}


def search(branch: str, texts: Sequence[str]) -> list[Sequence[str]]:
    return [documents(branch, text) for text in texts]


def fuse(rankings: Sequence[Sequence[Sequence[str]]]) -> list[list[str]]:
    """Returns the documents of each question; those that more branches found come first."""
    fused = []
    for question_rankings in zip(*rankings, strict=True):
        names = [name for hits in question_rankings for name in hits]
        fused.append(sorted(set(names), key=lambda name: (-names.count(name), name)))
    return fused


def make_app(redis_url: str, *, acks_late: bool = False) -> Celery:
    app = Celery("soak-plain-chord", set_as_current=False)
    url = celery_url(redis_url)
    app.conf.update(
        broker_url=url,
        result_backend=url,
        task_queues=[Queue(QUEUE.format(name=name)) for name in (*BRANCHES, FUSION)],
        task_default_queue=QUEUE.format(name=FUSION),
        task_acks_late=acks_late,
        worker_prefetch_multiplier=1,
        broker_transport_options={"visibility_timeout": VISIBLE_AGAIN_S, "unacked_restore_interval": 5},
    )

    @app.task(name="soak.search", shared=False)  # type: ignore[untyped-decorator]
    def search_task(branch: str, texts: list[str]) -> list[Sequence[str]]:
        return search(branch, texts)

    @app.task(name="soak.fuse", shared=False)  # type: ignore[untyped-decorator]
    def fuse_task(rankings: list[list[list[str]]]) -> list[list[str]]:
        return fuse(rankings)

    return app


def publish(app: Celery, request_id: str, texts: Sequence[str]) -> Any:
    header = [
        app.signature("soak.search", args=(name, list(texts))).set(queue=QUEUE.format(name=name))
        for name in BRANCHES
    ]
    body = app.signature("soak.fuse").set(queue=QUEUE.format(name=FUSION), task_id=request_id)
    return chord(header, app=app)(body)


def asking(redis_url: str) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    app = make_app(redis_url)

    def ask(fields: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            result = publish(app, fields["request_id"], fields["questions"])
            return {"status": "complete", "hits": result.get(timeout=fields["timeout_s"])}
        except NotInTime:
            return {"status": "not in time"}
        except Exception as error:  # whatever a caller gets to see
            return {"status": f"{type(error).__name__}"}

    return ask


def work(name: str, *, acks_late: bool) -> None:
    """Runs one worker on this queue."""
    failpoints.install(PLACES)
    # Celery warns of running as root because of pickled messages, which are not used here.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    make_app(os.environ["CHORALE_REDIS_URL"], acks_late=acks_late).Worker(
        hostname=f"plain-{name}",
        queues=[QUEUE.format(name=name)],
        pool="solo",
        concurrency=1,
        loglevel="CRITICAL",
        quiet=True,
    ).start()
