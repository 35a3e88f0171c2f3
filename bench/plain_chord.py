"""The same parts in a Celery chord as everybody writes it: a list header, results through the Redis backend.

`python -m bench.plain_chord QUEUE...` is one of its workers (solo, WARNING); its settings are Celery's own.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, cast

from celery import Celery, chord
from celery.exceptions import TimeoutError
from celery.platforms import SecurityWarning
from chorale_client.redis_urls import celery_url
from chorale_client.request import Request
from chorale_client.request_factory import make_request
from kombu import Queue

from bench import no_op, one_process
from bench.timing import Hung
from models.branch_result import BranchResult
from models.plan import Plan
from wiring.resources import Resources

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
        return one_process.search(resources, parsed, planned).to_wire().decode()

    @app.task(name="bench.fuse", shared=False)  # type: ignore[untyped-decorator]
    def fuse(envelopes: list[str], request: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
        parsed, planned = Request.model_validate(request), Plan.model_validate(plan)
        results = {
            branch.name: BranchResult.from_wire(branch.name, raw)
            for branch, raw in zip(planned.branches, envelopes, strict=True)
        }
        return one_process.fuse(resources, parsed, planned, results)

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
    plan = one_process.plan_of(resources, request)
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
    resources.writing_store.warm()
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
