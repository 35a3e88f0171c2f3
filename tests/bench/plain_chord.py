"""A request answered by function calls, and the same parts in a Celery chord as everybody writes it: a list header, results through
the Redis backend.

`python -m tests.bench.plain_chord QUEUE...` is one of its workers (solo, WARNING); its settings are Celery's own.
"""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from celery import Celery, chord
from celery.exceptions import TimeoutError
from celery.platforms import SecurityWarning
from chorale_client.connections.urls import celery_url
from chorale_client.request import Request
from chorale_client.request_factory import make_request
from chorale_client.wire_names import BranchStatus
from kombu import Queue

from fusion.answer import Pages, answer_fields
from fusion.branch_results import BranchAnswers
from fusion.fuse import fuse_question
from fusion.fused_hits import texts_to_fetch
from fusion.rankings import collapse_ranking
from models.branch_result import BranchResult
from models.documents import PassageText
from models.plan import BranchPlan, Plan
from tasks.branches.branch_task import BranchTask
from tasks.request.planning.plans import resolve
from tasks.wiring.resources import Resources
from tests.bench import no_op
from tests.bench.timing import Hung

_TURN = threading.Lock()


def plan_of(resources: Resources, request: Request) -> Plan:
    return resolve(
        request,
        resources.pipeline,
        accepted_at=datetime.now(UTC),
        generation=None,
        models=resources.fingerprints,
    )


def search(resources: Resources, request: Request, branch: BranchPlan) -> BranchResult:
    part = BranchTask(
        resources,
        resources.store(branch.store),
        branch,
        request,
        request.questions,
        ends_at_s=time.monotonic() + request.timeout_s,
        begun_ms=0.0,
    )
    uncollapsed = resources.pipeline.kinds.branches[branch.kind].search(part)
    rankings = tuple(collapse_ranking(ranking, branch.depth) for ranking in uncollapsed)
    return BranchResult(branch.name, BranchStatus.OK, rankings=rankings)


def fuse(
    resources: Resources, request: Request, plan: Plan, branch_results: Mapping[str, BranchResult]
) -> dict[str, Any]:
    """The answer's fields, with the texts of its hits where the request includes them."""
    method = resources.pipeline.kinds.method(plan.method)
    answers = BranchAnswers(request, plan, branch_results)
    fused = {index: fuse_question(answers, index, method) for index in plan.searched}
    texts: dict[str, PassageText] = {}
    if "snippets" in request.include:
        hits = [hit for question in fused.values() for hit in question.hits]
        for store, passage_ids in texts_to_fetch(plan, hits, ()).items():
            texts |= resources.store(store).texts(plan.namespace, passage_ids)
    return answer_fields(answers, Pages(fused, texts or None))


def answer_in_process(resources: Resources, request: Request) -> dict[str, Any]:
    """All steps of a request, one after another.  Threads take turns: that gave four times the throughput."""
    with _TURN:
        plan = plan_of(resources, request)
        branch_results = {branch.name: search(resources, request, branch) for branch in plan.branches}
        return fuse(resources, request, plan, branch_results)


QUEUE = "bench.plain.{branch}"
FUSION = "fusion"


def make_app(resources: Resources) -> Celery:
    app = Celery("bench-plain-chord", set_as_current=False)
    url = celery_url(resources.redis_url)
    names = [*(branch.name for branch in resources.pipeline.branches), FUSION]
    app.conf.update(
        broker_url=url,
        result_backend=url,
        task_queues=[Queue(QUEUE.format(branch=name)) for name in names],
        task_default_queue=QUEUE.format(branch=FUSION),
    )

    @app.task(name="bench.part", shared=False)  # type: ignore[untyped-decorator]
    def part(request: dict[str, Any], plan: dict[str, Any], branch: str) -> str:
        parsed = Request.model_validate(request)
        planned = next(
            planned_branch
            for planned_branch in Plan.model_validate(plan).branches
            if planned_branch.name == branch
        )
        return search(resources, parsed, planned).to_wire().decode()

    @app.task(name="bench.fuse", shared=False)  # type: ignore[untyped-decorator]
    def fuse_parts(
        branch_results: list[str], request: dict[str, Any], plan: dict[str, Any]
    ) -> dict[str, Any]:
        parsed, planned = Request.model_validate(request), Plan.model_validate(plan)
        results = {
            branch.name: BranchResult.from_wire(branch.name, raw)
            for branch, raw in zip(planned.branches, branch_results, strict=True)
        }
        return fuse(resources, parsed, planned, results)

    return app


class PlainChord:
    """Sends each request as a chord and waits for its result; threads may share it."""

    def __init__(self, resources: Resources, options: Mapping[str, Any]) -> None:
        """`options` go with every request."""
        self._resources, self._options = resources, options
        self._app = make_app(resources)

    def ask(self, text: str) -> Mapping[str, Any]:
        """Raises Hung where Celery gives no result within the request's time."""
        request, app = make_request(text, **self._options), self._app
        try:
            return _answer(app, self._resources, request)
        except TimeoutError as error:
            raise Hung(str(error)) from error
        except RuntimeError as error:
            if "Retry limit exceeded" not in str(error):
                raise
            # Celery says that the application must be restarted.
            self._app = make_app(self._resources)
            raise Hung(" ".join(str(error).split())) from error


def _answer(app: Celery, resources: Resources, request: Request) -> Mapping[str, Any]:
    plan = plan_of(resources, request)
    arguments = {"request": request.model_dump(mode="json"), "plan": plan.model_dump(mode="json")}
    header = [
        app.signature("bench.part", kwargs={**arguments, "branch": branch.name}).set(
            queue=QUEUE.format(branch=branch.name)
        )
        for branch in plan.branches
    ]
    body = app.signature("bench.fuse", kwargs=arguments).set(queue=QUEUE.format(branch=FUSION))
    result = chord(header, app=app)(body)
    return cast("Mapping[str, Any]", result.get(timeout=request.timeout_s))


def run_worker(branches: Sequence[str]) -> None:
    """Work on the queues of these branches, or of the fusion, with everything warm."""
    resources = Resources.from_environment(no_op.KINDS)
    if {"vector", "hyde"} & set(branches):
        resources.encoder.embedder.warm()
    for name in resources.written_stores:
        resources.store(name).warm()
    app = make_app(resources)
    # Celery's advice about root is about pickled messages.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    app.Worker(
        hostname=f"plain-{branches[0]}",
        queues=[QUEUE.format(branch=name) for name in branches],
        pool="solo",
        concurrency=1,
        loglevel="WARNING",
        quiet=True,
    ).start()


if __name__ == "__main__":
    run_worker(sys.argv[1:])
