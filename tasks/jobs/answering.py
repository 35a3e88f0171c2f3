"""A bulk worker answers a segment: lines with equal options are the questions of one request, searched by this process.

There is no chord: a segment is about lines a second, not about the time of one line, so one process runs every branch, with
one embedding and one search each, and fuses.  Messages may come twice: the first result of a segment counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from celery import Celery
from chorale_client.jobs.job_line import METADATA
from chorale_client.limits import MAX_CANDIDATES, MAX_QUESTIONS
from chorale_client.request import Request
from chorale_client.wire_names import TASK_ANSWER_LINES, Status, consequence
from chorale_client.wire_reader import read_request
from pydantic_core import to_json
from redis import Redis
from structlog import get_logger

from config.redis_client import redis_ms
from fusion.answer import warnings_of, worst
from fusion.branch_results import BranchAnswers
from fusion.conditions import least_relaxed
from models.branch_result import BranchResult
from models.errors import StageFailure
from models.plan import BranchPlan, Plan
from models.retries import Made, retried
from models.texts.known_words import is_about_language
from records.jobs.job import JobsUnavailable, Line, Segment, unanswered
from tasks.request.batch import can_batch
from tasks.request.composing.compose import answer_of, compose
from tasks.request.composing.ending import Ending
from tasks.request.planning.answer_cache import keep_answers, look_up
from tasks.request.planning.plans import built
from tasks.request.retrieve import resolve_plan
from tasks.request.search import CONCERNS_ALL, answer_together, branch_task
from tasks.wiring.resources import Resources

if TYPE_CHECKING:
    from records.jobs.store import Jobs

log = get_logger("chorale.jobs")

LEASE_MS = 15_000
"""A worker that has not renewed its segment for this long has died."""
REQUEST_S = 60.0
"""The time of the questions that are answered together."""
MODEL_QUESTIONS = 8
"""Questions that are answered together if a branch asks a language model, which answers one at a time."""
TIMES_AGAIN = 3
"""How often a line is answered again after a failure that may pass; before that it waits 2, 4 and 8 s."""
AGAIN_MS = 2_000
DEATHS = 2
"""After this many workers died with a segment, its lines are answered one by one, to find the line that kills."""
PAGE_FIELDS = ("hits", "removed", "relaxed", "context", "confidence", "abstained", "signals")
CACHED_LINES = 10_000
"""A job's first lines fill the answer cache; a million answers would push everything else out of Redis."""

Result = dict[str, Any]


def register(app: Celery) -> None:
    app.task(answer_lines_task, name=TASK_ANSWER_LINES, bind=True, ignore_result=True, send_events=False)


def answer_lines_task(task: Any, job_id: str, number: int, attempt: int, **_: object) -> None:
    """Does nothing if the segment was sent again after this message, or has its results."""
    resources: Resources = task.app.resources
    jobs = resources.jobs
    segment = _patiently(
        lambda: jobs.take(job_id, number, attempt, now_ms=redis_ms(resources.redis), lease_ms=LEASE_MS)
    )
    if segment is None:
        return
    with _lease_renewed(jobs, segment, resources.redis):
        if segment.tries > DEATHS:
            _answer_one_by_one(resources, jobs, segment)
        else:
            _answer_whole(resources, jobs, segment)


def _answer_whole(resources: Resources, jobs: Jobs, segment: Segment) -> None:
    results, transient = answer_lines(resources, segment, segment.remaining)
    if segment.again < TIMES_AGAIN and transient:
        for place in transient:
            del results[place]
        wait_ms = AGAIN_MS * 2**segment.again
        _write(
            jobs,
            segment,
            results,
            remaining=sorted(transient),
            again_at_ms=redis_ms(resources.redis) + wait_ms,
        )
    else:
        _write(jobs, segment, results)


def _answer_one_by_one(resources: Resources, jobs: Jobs, segment: Segment) -> None:
    remaining, results = list(segment.remaining), dict[int, Result]()
    if segment.suspect in remaining:
        remaining.remove(segment.suspect)
        results[segment.suspect] = unanswered(Status.FAILED, "the worker died while it answered this line")
    while remaining:
        rest = _write(jobs, segment, results, remaining=remaining, suspect=remaining[0])
        if rest is None:
            return
        segment = rest
        results, _ = answer_lines(resources, segment, [remaining.pop(0)])
    _write(jobs, segment, results)


def _write(jobs: Jobs, segment: Segment, results: Mapping[int, Result], **options: Any) -> Segment | None:
    return _patiently(lambda: jobs.write(segment, results, **options))


def _patiently(change: Callable[[], Made]) -> Made:
    """Make a change, also after the database was locked for a while."""

    def pause_s(error: Exception) -> float:
        log.warning("jobs not written yet", error=str(error))
        return 0.5

    return retried(change, JobsUnavailable, for_s=6.5, pause_s=pause_s)


@contextmanager
def _lease_renewed(jobs: Jobs, segment: Segment, redis: Redis) -> Iterator[None]:
    """Renew the lease while the block runs."""
    done = Event()

    def renew() -> None:
        while not done.wait(LEASE_MS / 3000):
            try:
                jobs.renew(segment, now_ms=redis_ms(redis), lease_ms=LEASE_MS)
            except Exception as error:  # the next renewal may succeed
                log.warning("lease not renewed", job_id=segment.job_id, error=str(error)[:200])

    thread = Thread(target=renew, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def answer_lines(
    resources: Resources, segment: Segment, places: Sequence[int]
) -> tuple[dict[int, Result], set[int]]:
    """The results of lines by place, and the places of the lines that a temporary failure made worse."""
    results: dict[int, Result] = {}
    transient: set[int] = set()
    for options, alike in _alike(segment.lines, places):
        try:
            portions = list(_portions(resources, options, alike, segment.lines))
        except (ValueError, KeyError) as error:  # written by a newer version, or by hand
            results |= {place: unanswered(Status.FAILED, f"not a request: {error}"[:500]) for place in alike}
            continue
        while portions:
            together = portions.pop(0)
            lines = {place: segment.lines[place] for place in together}
            try:
                portion_results, is_transient = _answered(resources, segment, options, lines)
            except Exception as error:
                if len(together) > 1:
                    log.warning("answered one by one", job_id=segment.job_id, error=str(error)[:200])
                    portions[:0] = [[place] for place in together]
                    continue
                log.exception("line failed", job_id=segment.job_id, line=lines[together[0]].number)
                failure = unanswered(Status.FAILED, f"{type(error).__name__}: {error}"[:500])
                portion_results, is_transient = {together[0]: failure}, False
            results |= portion_results
            worse = (Status.DEGRADED, Status.FAILED)
            if is_transient:
                transient |= {place for place, result in portion_results.items() if result["status"] in worse}
    return results, transient


def _alike(lines: Sequence[Line], places: Sequence[int]) -> list[tuple[Mapping[str, Any], list[int]]]:
    """The places of lines with equal options, with these options."""
    groups: dict[bytes, tuple[Mapping[str, Any], list[int]]] = {}
    for place in places:
        fields = (lines[place].fields or {}).items()
        options = {name: value for name, value in fields if name not in ("questions", METADATA)}
        groups.setdefault(to_json(sorted(options.items())), (options, []))[1].append(place)
    return list(groups.values())


def _portions(
    resources: Resources, options: Mapping[str, Any], places: Sequence[int], lines: Sequence[Line]
) -> Iterator[list[int]]:
    """Lines that fit into one request."""
    depth = read_request({**options, "questions": [""]}).request.effective_depth
    kinds = resources.pipeline.kinds.branches
    calls_model = not all(
        can_batch(resources, kinds[branch.kind], branch.name) for branch in resources.pipeline.branches
    )
    most = min(MODEL_QUESTIONS if calls_model else MAX_QUESTIONS, max(1, MAX_CANDIDATES // depth))
    portion: list[int] = []
    count = 0
    for place in places:
        own = len((lines[place].fields or {})["questions"])
        if portion and count + own > most:
            yield portion
            portion, count = [], 0
        portion.append(place)
        count += own
    yield portion


def _answered(
    resources: Resources, segment: Segment, options: Mapping[str, Any], lines: Mapping[int, Line]
) -> tuple[dict[int, Result], bool]:
    """The results of lines that share all options, by place, and whether a failure among them may pass."""
    questions_of: dict[bytes, Any] = {}
    keys_by_line: dict[int, list[bytes]] = {}
    repeated: set[int] = set()
    for place, line in lines.items():
        questions = (line.fields or {})["questions"]
        keys_by_line[place] = keys = [to_json(question) for question in questions]
        if questions_of.keys() >= set(keys):
            repeated.add(place)
        questions_of.update(zip(keys, questions, strict=True))
    request = read_request(
        {
            **options,
            "request_id": f"{segment.job_id}.{segment.number}",
            "namespace": segment.namespace,
            "questions": list(questions_of.values()),
            "timeout_s": REQUEST_S,
        }
    ).request
    answers = _searched(resources, request)
    for branch_result in answers.branch_results.values():
        if len(lines) > 1 and not branch_result.answered and branch_result.reason not in CONCERNS_ALL:
            raise _ConcernsOne(f"{branch_result.branch}: {branch_result.reason} {branch_result.detail}")
    with_time = replace(answers, plan=_with_time_to_rerank(answers.plan, len(questions_of)))
    ending = Ending(REQUEST_S * 1000, answers.plan.finish_reserve_ms)
    pages = compose(resources, with_time, ending)
    fields = answer_of(with_time, pages, ending)
    if segment.done_before < CACHED_LINES:
        keep_answers(resources, [(answers, fields)])
    results, index_of = {}, {key: index for index, key in enumerate(questions_of)}
    for place, keys in keys_by_line.items():
        indexes = [index_of[key] for key in keys]
        is_known = place in repeated or all(index in answers.plan.cached for index in indexes)
        own = replace(pages, fused={index: pages.fused[index] for index in indexes if index in pages.fused})
        # `chorale jobs submit` has said once what is true of the whole namespace.
        warnings = [line for line in warnings_of(answers, own) if not is_about_language(line)]
        line_fields = {**fields, "warnings": warnings}
        results[place] = _result([fields["questions"][index] for index in indexes], line_fields, is_known)
    is_transient = any(consequence(degradation["reason"]).is_retryable for degradation in fields["degraded"])
    return results, is_transient


class _ConcernsOne(Exception):
    """A branch failed for a reason that may concern one of several lines."""


def _searched(resources: Resources, request: Request) -> BranchAnswers:
    generation = resources.generations.in_redis_or_copied(request.namespace)
    now_ms, models = round(time.time() * 1000), resources.fingerprints
    plan = resolve_plan(resources, request, now_ms, generation, models)
    plan = built(plan, look_up(resources, request, plan), plan.branches)
    branches = plan.branches if plan.searched else ()
    branch_results = {branch.name: _branch_result(resources, request, plan, branch) for branch in branches}
    return BranchAnswers(request, plan, least_relaxed(branch_results))


def _branch_result(resources: Resources, request: Request, plan: Plan, branch: BranchPlan) -> BranchResult:
    begun_s = time.monotonic()
    ends_at_s = begun_s + branch.limit_ms / 1000
    try:
        part = branch_task(resources, branch, request, plan, ends_at_s=ends_at_s, begun_ms=0.0)
    except StageFailure as failure:
        return BranchResult.failed(branch.name, failure.reason, failure.detail)
    return answer_together(resources, [part], begun_s)[0]


def _with_time_to_rerank(plan: Plan, questions: int) -> Plan:
    """The plan with a reranker's budget for each question."""
    if plan.rerank is None:
        return plan
    further_ms = plan.rerank.budget_ms * (questions - 1)
    rerank = plan.rerank.model_copy(update={"budget_ms": plan.rerank.budget_ms + further_ms})
    longer = {"rerank": rerank, "fusion_reserve_ms": plan.fusion_reserve_ms + further_ms}
    return plan.model_copy(update=longer)


def _selected(page: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: page[name] for name in names if name in page}


def _result(pages: Sequence[Mapping[str, Any]], fields: Mapping[str, Any], is_known: bool) -> Result:
    """The result of a line with these questions."""
    status = str(worst(page["status"] for page in pages))
    is_worse = status in (Status.DEGRADED, Status.FAILED)
    degraded = fields["degraded"] if is_worse else []
    answer = _selected(pages[0], PAGE_FIELDS)
    if len(pages) > 1:
        answer = {"questions": [_selected(page, ("status", "coverage", *PAGE_FIELDS)) for page in pages]}
    error = "; ".join(
        f"{degradation['where']}: {degradation['reason']} {degradation['detail']}".strip()
        for degradation in degraded
    )
    return {
        "status": status,
        "coverage": min(page["coverage"] for page in pages),
        **answer,
        "degraded": degraded,
        "warnings": fields["warnings"],
        "error": error if status == Status.FAILED else None,
        "deduplicated": is_known,
    }
