"""The chord: one part for each branch, on the branch's own queue, and the fusion as its callback.

    chord([chorale.search.bm25, chorale.search.vector, chorale.search.hyde])(chorale.fuse)

The messages are those of a Celery chord; the ledger joins them (`tasks.celery_internals.result_backend`).  docs/reference/flow.md
says in which layout the callback is a message.  A lean chord needs two scripts: one writes the plan and pushes the messages,
and the last report pushes the callback, which each reporter brings along.  If the broker is not the ledger's Redis, or this version of Celery would send other messages,
`celery.chord` is used over the same result backend: more round trips, the same join.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from celery import Celery, chord
from celery.canvas import Signature
from chorale_client.keys import READY
from chorale_client.ledger import Accepted, CallersLedger
from chorale_client.request import Request
from chorale_client.wire_names import (
    QUEUE_BULK,
    QUEUE_FUSION,
    QUEUE_RETRIEVE,
    TASK_FUSE,
    TASK_RETRIEVE,
    TASK_SEARCH,
)
from structlog import get_logger

from config.celery import is_redis
from config.declarations import BranchDeclaration
from ledger.protocol import BranchDispatch, Chord, PlanOutcome
from ledger.redis import RedisLedger
from models.plan import BranchPlan, Plan, is_costly
from tasks.celery_internals.message_template import Template, rendered_by_celery
from tasks.celery_internals.result_backend import part_id

log = get_logger("chorale.fanout")


class Fanout:
    """Publishes chords and, for the sweeper, single messages of a chord."""

    def __init__(self, app: Celery, ledger: RedisLedger, *, resend_after_s: float, lean: bool = True) -> None:
        self._app = app
        self._ledger = ledger
        self._resend_after_ms = round(resend_after_s * 1000)
        self._templates: dict[tuple[str, str], Template] = {}
        self.why_plain = self._why_plain() if lean else "CHORALE_LEAN is off"
        """Why Celery itself publishes chords; None if they are lean."""

    @property
    def is_lean(self) -> bool:
        return self.why_plain is None

    def _why_plain(self) -> str | None:
        if not is_redis(self._app.conf.broker_url):
            return "the broker is no Redis"
        if self._app.conf.broker_url.removeprefix("redis+") != self._app.backend.url.removeprefix("redis+"):
            why = "the broker is another Redis, or another of its databases, than the ledger's"
        elif difference := check(self._app, TASK_FUSE, QUEUE_FUSION):
            why = f"a rendered message is not what Celery sends: {difference}"
        else:
            return None
        log.warning("plain chords", why=why)
        return why

    def publish(
        self, request_id: str, plan: Plan, *, request: bytes, coalescing_key: str | None = None
    ) -> PlanOutcome:
        """Write the plan and publish the chord, once: a second planner gets `known`.  `request` is as the ledger has it."""
        outcome = self._ledger.plan(request_id, self._chord(request_id, request, plan, coalescing_key))
        self._publish_plain(request_id, plan, outcome)
        return outcome

    def submit(
        self,
        callers: CallersLedger,
        request: Request,
        plan: Plan,
        coalescing_key: str | None,
        cached: Sequence[str],
    ) -> tuple[Accepted, PlanOutcome | None, Sequence[bytes | None]]:
        """Accept the request, and publish its chord if the plan still holds (see `RedisLedger.submit`)."""
        assert plan.generation is not None
        written = self._chord(request.request_id, request.written.text.encode(), plan, coalescing_key)
        submitted = self._ledger.submit(callers, request, written, plan.generation, cached)
        self._publish_plain(request.request_id, plan, submitted[1])
        return submitted

    def _chord(self, request_id: str, request: bytes, plan: Plan, coalescing_key: str | None) -> Chord:
        callback = self._fuse_signature(request_id) if self.is_lean else None
        parts = [
            BranchDispatch(
                branch.name,
                branch.queue,
                branch.limit_ms,
                branch.limit_ms if branch.is_costly else self._resend_after_ms,
                self._part_message(request_id, branch, callback, index) if callback else b"",
                branch.hedge_after_ms,
                branch.is_decisive,
                branch.lease_ms,
            )
            for index, branch in enumerate(plan.branches)
        ]
        return Chord(
            request, plan.to_json(), parts, plan.finish_reserve_ms, plan.fusion_reserve_ms, coalescing_key
        )

    def _publish_plain(self, request_id: str, plan: Plan, outcome: PlanOutcome | None) -> None:
        if outcome == "planned" and not self.is_lean:
            header = [self._part_signature(request_id, branch) for branch in plan.branches]
            chord(header, app=self._app)(self._fuse_signature(request_id), task_id=request_id)

    def callback(self, request_id: str) -> bytes:
        """The message of the fusion, for a report; empty if Celery publishes it."""
        if not self.is_lean:
            return b""
        return self._fuse_message(request_id, QUEUE_FUSION)

    def send_part(self, request_id: str, branch: BranchPlan | BranchDeclaration, *, attempt: int = 1) -> None:
        callback = self._fuse_signature(request_id)
        if self.is_lean:
            message = self._part_message(request_id, branch, callback, attempt=attempt)
            with self._app.backend.client.pipeline(transaction=False) as trip:
                trip.lpush(branch.queue, message)
                trip.lpush(READY, 1)
                trip.execute()
        else:
            signature = self._part_signature(request_id, branch, attempt)
            signature.apply_async(group_id=request_id, chord=callback)

    def send_fuse(self, request_id: str) -> None:
        queue = QUEUE_BULK if is_costly(self._ledger.planned(request_id)) else QUEUE_FUSION
        if not self.is_lean:
            self._fuse_signature(request_id).apply_async(queue=queue)
        elif queue == QUEUE_FUSION:
            self._ledger.call_fusion(self.callback(request_id))
        else:
            # The message goes to the end of the list from which workers take, because the request's time is nearly over.
            self._app.backend.client.rpush(queue, self._fuse_message(request_id, queue))

    def send_retrieve(self, request_id: str) -> None:
        arguments = {"request_id": request_id}
        if self.is_lean:
            # Not through the queue's bindings, to which a caller's login may add any key.
            template = self._template(TASK_RETRIEVE, QUEUE_RETRIEVE)
            message = template.render(str(uuid4()), arguments, root_id=request_id)
            self._app.backend.client.lpush(QUEUE_RETRIEVE, message)
        else:
            self._app.send_task(
                TASK_RETRIEVE, kwargs=arguments, queue=QUEUE_RETRIEVE, root_id=request_id, ignore_result=True
            )

    def _part_message(
        self,
        request_id: str,
        branch: BranchPlan | BranchDeclaration,
        callback: Signature,
        index: int = 0,
        attempt: int = 1,
    ) -> bytes:
        return self._template(TASK_SEARCH.format(kind=branch.kind), branch.queue).render(
            part_id(request_id, branch.name, attempt),
            _part_arguments(request_id, branch, attempt),
            root_id=request_id,
            parent_id=request_id,
            group_id=request_id,
            group_index=index,
            chord=callback,
        )

    def _part_signature(
        self, request_id: str, branch: BranchPlan | BranchDeclaration, attempt: int = 1
    ) -> Signature:
        return self._app.signature(
            TASK_SEARCH.format(kind=branch.kind),
            kwargs=_part_arguments(request_id, branch, attempt),
            immutable=True,
            queue=branch.queue,
            task_id=part_id(request_id, branch.name, attempt),
            root_id=request_id,
            parent_id=request_id,
            ignore_result=True,
        )

    def _fuse_message(self, request_id: str, queue: str) -> bytes:
        return self._template(TASK_FUSE, queue).render(
            request_id, {"request_id": request_id}, root_id=request_id
        )

    def _fuse_signature(self, request_id: str) -> Signature:
        return self._app.signature(
            TASK_FUSE,
            kwargs={"request_id": request_id},
            immutable=True,
            queue=QUEUE_FUSION,
            task_id=request_id,
            root_id=request_id,
        )

    def _template(self, task: str, queue: str) -> Template:
        known = self._templates.get((task, queue))
        if known is None:
            known = self._templates[task, queue] = Template(self._app, task, queue)
        return known


def _part_arguments(
    request_id: str, branch: BranchPlan | BranchDeclaration, attempt: int
) -> dict[str, str | int]:
    return {"request_id": request_id, "branch": branch.name, "attempt": attempt}


def check(app: Celery, task: str, queue: str) -> str | None:
    """How a rendered message differs from Celery's own for the same task; None if it does not."""
    kwargs = {"request_id": "probe", "branch": "probe"}
    callback = app.signature(task, kwargs={"request_id": "probe"}, immutable=True, queue=queue)
    ids: dict[str, Any] = {"root_id": "root", "parent_id": "parent", "group_id": "group", "group_index": 1}
    ids["chord"] = callback
    try:
        rendered = Template(app, task, queue).render("probe:probe", kwargs, **ids)
        own = json.loads(rendered)
        celerys = rendered_by_celery(app, task, queue, task_id="probe:probe", kwargs=kwargs, **ids)
        for message in (own, celerys):
            message["properties"].pop("delivery_tag", None)
            message["body"] = json.loads(b64decode(message["body"]))
    except Exception as error:  # whatever a new version raises: plain chords work all the same
        return f"{type(error).__name__}: {error}"
    for part in ("body", "headers", "properties", "content-type", "content-encoding"):
        if own.get(part) != celerys.get(part):
            return f"{part}: {own.get(part)!r} is not {celerys.get(part)!r}"
    return None if own.keys() == celerys.keys() else f"fields: {sorted(own)} are not {sorted(celerys)}"
