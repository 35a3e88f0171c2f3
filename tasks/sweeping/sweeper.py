"""The loop that sends again, joins and ends what nobody else did in time.  It is no Celery task, and needs no model.

One sweeper acts at a time, and the others stand by.  The acting one also leases each request that it ends: if it dies,
the next one goes on a moment later.
"""

from __future__ import annotations

import threading
import time
import uuid
from queue import SimpleQueue

from redis.exceptions import RedisError, ResponseError
from structlog import get_logger

from config.declarations import Pipeline
from config.redis_client import explained
from ledger.protocol import Action
from models.duty import Duty
from tasks.request.composing.ending import SWEEPER
from tasks.request.fanout import Fanout
from tasks.request.finishing import end_joined
from tasks.request.retrieve import plan_accepted
from tasks.sweeping.admission import QueueWatch
from tasks.wiring.resources import Resources

log = get_logger("chorale.sweeper")


class Sweeper(Duty):
    failing = "waits for Redis"
    expected = (*Duty.expected, RedisError)

    def __init__(self, resources: Resources, fanout: Fanout, *, interval_s: float) -> None:
        self._resources = resources
        self._fanout = fanout
        self._interval_s = interval_s
        self.name = uuid.uuid4().hex
        self._is_acting = False
        self._watch = QueueWatch(resources, self.name, lambda: self._is_acting)
        self._to_plan: SimpleQueue[str | None] = SimpleQueue()

    def run(self, stop: threading.Event) -> None:
        """Sweep until `stop`, also after Redis was away."""
        if self._watch.is_wanted:
            threading.Thread(target=self._watch.run, args=(stop,), name="queues", daemon=True).start()
        threading.Thread(target=self._plan_all, name="planner", daemon=True).start()
        super().run(stop)
        self._to_plan.put(None)

    def pause_s(self, failures: int) -> float:
        return 0.2  # without a sweeper, requests would hang

    def explain(self, error: Exception) -> str:
        if isinstance(error, RedisError):
            return str(explained(error, self._resources.redis_url))
        return super().explain(error)

    def tick(self) -> float:
        """Do what is due; returns the seconds until something may be due again."""
        sweep = self._resources.ledger.sweep(self.name)
        self._is_acting = sweep.is_acting
        for action in sweep.actions:
            if action.do in ("quarantine", "error"):
                log.error("malformed entry", do=action.do, request_id=action.request_id, why=action.branch)
                continue
            log.info("swept", do=action.do, request_id=action.request_id, branch=action.branch)
            try:
                self._do(action)
            except ResponseError as error:
                # A full Redis refuses this command, but not those that end requests, which may come next.
                log.warning(
                    "action refused", do=action.do, request_id=action.request_id, error=str(error)[:200]
                )
            except RedisError:
                raise
            except Exception:
                log.exception("action failed", do=action.do, request_id=action.request_id)
        if sweep.next_in_ms is None:
            return self._interval_s
        next_s = sweep.next_in_ms / 1000
        # A lease ends after the last of its milliseconds.
        return min(next_s, self._interval_s) if sweep.is_acting else next_s + 0.001

    def _do(self, action: Action) -> None:
        if action.do == "end":
            self._end(action.request_id)
        elif action.do == "plan":
            self._to_plan.put(action.request_id)
        else:
            send_again(self._resources.pipeline, self._fanout, action)

    def _plan_all(self) -> None:
        """Runs in its own thread: reading fingerprints of models, or a silent database, must not delay the ends."""
        while (request_id := self._to_plan.get()) is not None:
            try:
                plan_accepted(self._resources, self._fanout, request_id)
            except RedisError as error:
                log.warning("not planned", request_id=request_id, error=str(error)[:200])
            except Exception:
                log.exception("not planned", request_id=request_id)

    def _end(self, request_id: str) -> None:
        joined_s = time.monotonic()
        entry = self._resources.ledger.join(request_id, force=True)
        if entry is not None:
            end_joined(self._resources, [entry], by=SWEEPER, joined_s=joined_s)


def send_again(pipeline: Pipeline, fanout: Fanout, action: Action) -> None:
    """Send a message of the request again.  A hedge is attempt 2: whichever attempt answers first counts.

    Queue and kind of a part are those of the pipeline: a caller's login can write anything into the entry.
    """
    match action.do:
        case "retrieve":
            fanout.send_retrieve(action.request_id)
        case "fuse":
            fanout.send_fuse(action.request_id)
        case "part" | "hedge":
            for branch in pipeline.branches:
                if branch.name == action.branch:
                    fanout.send_part(action.request_id, branch, attempt=2 if action.do == "hedge" else 1)
