"""Tells the end of a job to the receiver that its submitter named, at least once: by a Celery task or a webhook.

Whatever fails is tried again with growing pauses until the job is deleted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from celery import Celery
from pydantic_core import to_json
from structlog import get_logger

from config.callback_policy import check_on_end
from jobs.job import Job
from tasks.callbacks.user_tasks import pause_s, send
from tasks.jobs.webhook import post
from wiring.resources import Resources

log = get_logger("chorale.jobs")

LONGEST_PAUSE_S = 3_600.0
AT_ONCE = 8
"""Maximum number of threads that tell."""


@dataclass(slots=True)
class _Telling:
    due_s: float = 0.0
    failures: int = 0
    thread: threading.Thread | None = None

    @property
    def is_going_on(self) -> bool:
        return self.thread is not None and self.thread.is_alive()


class OnEnd:
    def __init__(self, app: Celery) -> None:
        self._app = app
        self._resources: Resources = app.resources
        self._known: dict[str, _Telling] = {}
        """What has been done to tell of each end, by the id of its message."""

    def tell(self, ended: Sequence[Job]) -> None:
        """Begin to tell of the ends that are due; returns at once.  `ended` are all jobs whose ends are still to be told."""
        self._known = {_message_id(job): self._known.get(_message_id(job), _Telling()) for job in ended}
        free = AT_ONCE - sum(one.is_going_on for one in self._known.values())
        for job in ended:
            one = self._known[_message_id(job)]
            if free > 0 and not one.is_going_on and one.due_s <= time.monotonic():
                one.thread = threading.Thread(target=self._tell, args=(job, one), name="on_end", daemon=True)
                one.thread.start()
                free -= 1

    def _tell(self, job: Job, telling: _Telling) -> None:
        try:
            on_end, settings = job.on_end or {}, self._resources.settings
            check_on_end(on_end, settings)
            if "url" in on_end:
                body = to_json(job.to_wire())
                post(_message_id(job), body, on_end["url"], settings, key_id=on_end.get("key_id"))
            else:
                send_task(self._app, job, on_end["task"], on_end["queue"])
            self._resources.jobs.note_told(job.job_id, ended_at_ms=job.ended_at_ms)
            log.info("on_end told", job_id=job.job_id)
        except Exception as error:  # whatever a network or a broker's transport raises
            again_in_s = pause_s(telling.failures, longest_s=LONGEST_PAUSE_S)
            telling.failures += 1
            telling.due_s = time.monotonic() + again_in_s
            log.warning("on_end not told", job_id=job.job_id, again_in_s=again_in_s, error=str(error)[:300])


def send_task(app: Celery, job: Job, task: str, queue: str) -> None:
    """Send the Celery task; raises if the broker does not have it in a queue of this name."""
    kwargs = {"job_id": job.job_id, "state": job.state, "outcome": job.outcome, "counts": job.counts}
    send(app, task, queue, kwargs=kwargs, task_id=_message_id(job), ignore_result=True)


def _message_id(job: Job) -> str:
    """The same for every attempt to tell of one end; a job that was answered again ends anew."""
    return f"{job.job_id}.{job.ended_at_ms}"
