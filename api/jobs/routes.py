"""Bulk jobs: submit a file of questions, watch and steer the job, and read its results while it runs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain, islice
from typing import Annotated, Any, Literal

from anyio import to_thread
from chorale_client.errors import InvalidRequest
from chorale_client.jobs.input_stats import InputStats
from chorale_client.limits import MAX_JOB_BYTES, MAX_LINES
from chorale_client.tenants import owned
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import AwareDatetime, BeforeValidator
from pydantic_core import to_json

from api.caller import Caller, KeyFirst
from api.headers import IdempotencyKey, id_for
from api.jobs.documents import Comparison, JobPage, Removed, ResultPage, Retried, Retry, SubmittedJob
from api.jobs.documents import Job as JobDocument
from api.jobs.uploads import MEDIA_TYPES, Upload, submit
from api.services import Services, ServicesDep
from api.timestamps import cursor_after, read_cursor
from api.upload_limits import upload_place
from config.redis_client import redis_ms
from records.jobs.comparison import compare_jobs
from records.jobs.job import Job, State
from records.jobs.result_formats import page_of, writer_of
from records.jobs.store import Jobs
from records.jobs.submitting import described, new_job
from records.keys.grant import Grant
from records.keys.redaction import redacted_line

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=KeyFirst)

CHUNK_BYTES = 64_000
RESULT_TYPES = {
    "jsonl": "application/jsonl",
    "csv": "text/csv; charset=utf-8",
    "csv-raw": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "trec": "text/plain; charset=utf-8",
}


def _as_iso(text: object) -> datetime:
    # pydantic reads numbers, too.
    try:
        return datetime.fromisoformat(str(text).upper())
    except ValueError:
        raise ValueError("not a moment such as 2026-11-23T08:00:00Z") from None


Moment = Annotated[AwareDatetime, BeforeValidator(_as_iso)]
Writer = Annotated[Grant, Depends(Caller("jobs:write"))]
Reader = Annotated[Grant, Depends(Caller("search:read", "jobs:write"))]

_LINES_AS_BYTES = {"schema": {"type": "string", "format": "binary"}}
_UPLOAD = {
    "requestBody": {
        "required": True,
        "description": "The lines, as JSON lines or CSV.",
        "content": dict.fromkeys(MEDIA_TYPES, _LINES_AS_BYTES),
    }
}


@router.post(
    "",
    status_code=201,
    response_model=SubmittedJob,
    max_body_size=MAX_JOB_BYTES,
    openapi_extra=_UPLOAD,
    responses={
        200: {"model": SubmittedJob, "description": "The same `Idempotency-Key` made this job before"}
    },
)
async def submit_job(
    request: Request,
    grant: Writer,
    services: ServicesDep,
    namespace: Annotated[str, Query(description="The namespace of every line")] = "default",
    name: Annotated[str, Query(max_length=256, description="For lists")] = "",
    deadline_s: Annotated[float | None, Query(gt=0, le=365 * 86_400)] = None,
    on_error: Annotated[
        Literal["refuse", "skip"], Query(description="What a wrong line does to the job")
    ] = "refuse",
    on_end: Annotated[
        str | None,
        Query(
            description="JSON: the receiver of the end, `{url}` or `{task, queue}`; needs the scope `admin`"
        ),
    ] = None,
    options: Annotated[
        str, Query(description='JSON: options of a search for all lines, such as `{"top_k": 3}`')
    ] = "{}",
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Submit a file of questions.

    A line is `{"id", "text" | "questions", ...options of a search}`; a CSV file has the columns `id` and `text` and optional
    columns of options.  Lines are checked while they arrive; the first wrong ones are named.  The job waits for its turn
    when the response is there.
    """
    grant.check_namespace(namespace)
    callback = None if on_end is None else _json_object(on_end, "on_end")
    if callback is not None:
        grant.require("admin")
    description = described(
        namespace=namespace,
        name=name,
        tenant=grant.tenant,
        weight=grant.weight,
        deadline_s=deadline_s,
        on_end=callback,
    )
    seconds, micros = await services.redis.first("", lambda redis: redis.time())
    ahead_ms = seconds * 1_000 + micros // 1_000 - time.time_ns() // 1_000_000

    def now_ms() -> int:
        return time.time_ns() // 1_000_000 + ahead_ms

    new = new_job(
        description,
        services.settings,
        now_ms(),
        job_id=id_for(idempotency_key, "POST /v1/jobs", namespace, grant),
    )
    if callback is not None and "url" in callback:
        new = replace(new, on_end={**callback, "key_id": grant.key_id})
    defaults = _json_object(options, "options")
    read = InputStats(refuses=on_error == "refuse")
    submitting = partial(submit, Upload(request), services.jobs, grant, new, defaults, now_ms, read)
    with upload_place(services, grant):
        job, is_new = await to_thread.run_sync(submitting, limiter=services.uploads)
    wrong_lines = [{"line": number, "error": fault} for number, fault in read.named]
    headers = {"Location": f"/v1/jobs/{job.job_id}"}
    submitted = SubmittedJob.model_validate({**job.to_wire(), "wrong_lines": wrong_lines})
    return _json(submitted, 201 if is_new else 200, headers)


@router.get("")
def list_jobs(
    grant: Reader,
    services: ServicesDep,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 20,
    after: Annotated[str | None, Query(description="`next` of the page before")] = None,
) -> JobPage:
    """List your jobs, newest first."""
    jobs = _jobs(services, grant).last(limit + 1, after=read_cursor(after))
    last = jobs[limit - 1] if len(jobs) > limit else None
    return JobPage(
        jobs=[_document(job) for job in jobs[:limit]],
        next=None if last is None else cursor_after(last.created_at_ms, last.job_id),
    )


@router.delete("")
async def delete_jobs(
    grant: Writer,
    services: ServicesDep,
    ended_before: Annotated[Moment, Query(description="ISO 8601, with a zone")],
) -> Removed:
    """Delete your jobs that ended before this moment, with their questions and results."""
    before_ms = max(0, round(ended_before.timestamp() * 1_000))
    # Nobody else's, not even those of the command line that the operator's key sees.
    own = services.jobs.limited_to(owned(grant.tenant, ""), grant.namespaces, with_unowned=False)
    removed = await to_thread.run_sync(lambda: own.prune(before_ms=before_ms))
    return Removed(removed=removed)


@router.get("/{job_id}")
def get_job(job_id: str, grant: Reader, services: ServicesDep) -> JobDocument:
    """Show a job: its state, its lines by status, its rate and the time left."""
    return _document(_jobs(services, grant).get(job_id))


@router.delete("/{job_id}", status_code=204)
def delete_job(job_id: str, grant: Writer, services: ServicesDep) -> None:
    """Delete a job that has ended, with its questions and results."""
    _jobs(services, grant).delete(job_id)


@router.post("/{job_id}/pause")
def pause_job(job_id: str, grant: Writer, services: ServicesDep) -> JobDocument:
    """Send no further lines to the workers; lines that they have are still answered."""
    return _document(_jobs(services, grant).pause(job_id))


@router.post("/{job_id}/resume")
def resume_job(job_id: str, grant: Writer, services: ServicesDep) -> JobDocument:
    """Go on with a paused job."""
    return _document(_jobs(services, grant).resume(job_id))


@router.post("/{job_id}/cancel")
def cancel_job(job_id: str, grant: Writer, services: ServicesDep) -> JobDocument:
    """End a job; the results that are there stay, and its other lines get the status `cancelled`."""
    return _document(_jobs(services, grant).cancel(job_id))


@router.post("/{job_id}/retry")
def retry_job(job_id: str, body: Retry, grant: Writer, services: ServicesDep) -> Retried:
    """Answer some lines of an ended job again; their new results take the place of the old ones."""
    cells = services.blocking_redis
    jobs, now_ms = _jobs(services, grant), redis_ms(cells.by_name[cells.answering(job_id)])
    deadline_ms = None if body.deadline_s is None else now_ms + round(body.deadline_s * 1_000)
    count = jobs.retry(job_id, body.only, now_ms=now_ms, deadline_at_ms=deadline_ms)
    return Retried(lines=count, job=_document(jobs.get(job_id)))


@router.get("/{job_id}/comparison")
def compare_with_job(
    job_id: str,
    grant: Reader,
    services: ServicesDep,
    other: Annotated[str, Query(description="The second job")],
) -> Comparison:
    """Compare the results of two ended jobs over the same questions, line by line; lines are matched by their ids."""
    jobs = _jobs(services, grant)
    return Comparison.model_validate(compare_jobs(jobs, [jobs.get(job_id), jobs.get(other)]))


@router.get(
    "/{job_id}/results",
    response_class=Response,
    responses={
        200: {
            "model": ResultPage,
            "description": "A page as JSON, or the lines in another format",
            "content": {
                media_type.partition(";")[0]: _LINES_AS_BYTES for media_type in RESULT_TYPES.values()
            },
        }
    },
)
def read_results(
    job_id: str,
    grant: Reader,
    services: ServicesDep,
    after: Annotated[int, Query(ge=0, le=2**31, description="The number of the last line that is known")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_LINES, description="At most so many lines")] = MAX_LINES,
    format_: Annotated[
        Literal["json", "jsonl", "csv", "csv-raw", "parquet", "trec"],
        Query(
            alias="format", description="`json` is a page of about 1 MB; the others are streams of all lines"
        ),
    ] = "json",
) -> Response:
    """Read the results in input order while the job runs: the lines after `after`, up to the first line without a result.

    The number of the last line is the next `after`.
    """
    jobs = _jobs(services, grant)
    job = jobs.get(job_id)
    lines = islice(map(redacted_line, jobs.results(job_id, after=after)), limit)
    if format_ == "json":
        page = list(page_of(lines))
        last = page[-1]["line"] if page else after
        return _json({"lines": page, "next": last, "is_ended": job.state == State.ENDED})
    written = writer_of(format_)(lines)
    # An error before the first byte still has a status of its own.
    first = next(written, b"")
    return StreamingResponse(_joined(chain([first], written)), media_type=RESULT_TYPES[format_])


def _joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Joins small parts into larger ones: each part is fetched from another thread."""
    ready: list[bytes] = []
    size = 0
    for piece in pieces:
        ready.append(piece)
        size += len(piece)
        if size >= CHUNK_BYTES:
            yield b"".join(ready)
            ready, size = [], 0
    yield b"".join(ready)


def _jobs(services: Services, grant: Grant) -> Jobs:
    """The jobs that the caller may see; another's is as unknown as one that is not there."""
    owner = owned(grant.tenant, "")
    return services.jobs.limited_to(owner, grant.namespaces, with_unowned=grant.is_operators)


def _document(job: Job) -> JobDocument:
    return JobDocument.model_validate(job.to_wire())


def _json(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    content = to_json(document, inf_nan_mode="null")
    return Response(content, status, headers=headers, media_type="application/json")


def _json_object(text: str, field: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidRequest(f"{field}: not a JSON object")
    return value
