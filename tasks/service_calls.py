"""Does what callers ask of the sweeper process (`chorale_client.service_calls`): they have Redis, and it has the database.

Every sweeper process takes calls from the same list.  A call may come twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from chorale_client.errors import InvalidRequest
from chorale_client.jobs.job import Submission
from chorale_client.keys import JOB_COMMANDS, JOB_REPLY
from pydantic import BaseModel, Field, ValidationError, validate_call
from pydantic_core import to_json
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError
from structlog import get_logger

from config.redis_client import redis_ms
from models.duty import Duty
from models.errors import UnknownNamespace, WrongDeclaration
from records.jobs.job import RETRIED, SEGMENT_LINES, JobsUnavailable, Line, NoSuchJob, State, WrongState
from records.jobs.result_formats import page_of
from records.jobs.submitting import new_job
from search.documents import browsing
from search.documents.lookups import SqlConnection
from tasks.wiring.resources import Resources

log = get_logger("chorale.calls")

TAKE_S = 1
"""How long one read of the list waits for a call."""
REPLY_TTL_MS = 60_000
MOST_LISTED = 1_000
READ_S = 5.0
"""Longest time for reading documents."""

ON_WIRE: Mapping[type[Exception], str] = {
    NoSuchJob: "no_such_job",
    WrongState: "wrong_job_state",
    WrongDeclaration: "invalid_job",
    ValidationError: "invalid_job",
    JobsUnavailable: "unavailable",
}
WireLine = tuple[int, str, dict[str, Any] | None, str | None]


class _Message(BaseModel):
    do: str
    caller: str = Field(pattern=r"^[0-9a-f]{32}$")
    number: int
    arguments: dict[str, Any] = Field(alias="given")


class ServiceCalls(Duty):
    failing = "calls of clients wait"
    expected = (*Duty.expected, RedisError, SQLAlchemyError)

    def __init__(self, resources: Resources, prepare: Callable[[], object]) -> None:
        """`prepare` brings up the tables; it is called often."""
        self._resources = resources
        self._prepare = prepare

    def tick(self) -> float:
        self._prepare()
        self.do_next()
        return 0.0

    def do_next(self) -> bool:
        """Do one call; returns False if there is none."""
        redis = self._resources.redis
        popped: Any = redis.brpop([JOB_COMMANDS], timeout=TAKE_S)
        if popped is None:
            return False
        try:
            message = _Message.model_validate_json(popped[1])
        except ValidationError as error:
            log.warning("call dropped", error=str(error)[:300])
            return True
        key = JOB_REPLY + message.caller
        with redis.pipeline() as trip:
            trip.rpush(key, to_json({"number": message.number, **self._reply(message)}, inf_nan_mode="null"))
            trip.pexpire(key, REPLY_TTL_MS)
            trip.execute()
        return True

    def _reply(self, message: _Message) -> dict[str, Any]:
        if message.do not in CALLS:
            return {"error": "unknown_command", "message": f"this version cannot do {message.do[:80]!r}"}
        try:
            return {"result": CALLS[message.do](_Calls(self._resources), **message.arguments)}
        except tuple(ON_WIRE) as error:
            reason = InvalidRequest.from_validation(error) if isinstance(error, ValidationError) else error
            return {"error": ON_WIRE[type(error)], "message": str(reason)}
        except Exception:
            log.exception("call failed", do=message.do)
            return {"error": "failed", "message": "an unexpected error; the log of the sweeper has it"}


class _Calls:
    """Each method returns what its caller's method returns."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._jobs = resources.jobs
        self._now_ms = redis_ms(resources.redis)

    def create(self, job_id: str, about: Submission) -> None:
        new = new_job(about, self._resources.settings, self._now_ms, job_id=job_id)
        self._jobs.create(new, now_ms=self._now_ms)

    def add(self, job_id: str, first: int, segments: list[list[WireLine]]) -> None:
        numbered = {
            number: [Line(*line) for line in lines] for number, lines in enumerate(segments, start=first)
        }
        if wrong := [number for number, lines in numbered.items() if not 0 < len(lines) <= SEGMENT_LINES]:
            raise WrongDeclaration(f"segment {wrong[0]} does not have 1 to {SEGMENT_LINES} lines")
        self._jobs.add(job_id, numbered, now_ms=self._now_ms)

    def begin(self, job_id: str, segments: int) -> None:
        try:
            self._jobs.begin(job_id, segments=segments, now_ms=self._now_ms)
        except WrongState:
            job = self._jobs.get(job_id)
            # The job has begun already if this command comes again.
            if job.state in (State.VALIDATING, State.CANCELLING) or job.segments != segments:
                raise

    def refuse(self, job_id: str, reason: str) -> None:
        self._jobs.refuse(job_id, reason, now_ms=self._now_ms)

    def get(self, job_id: str) -> dict[str, Any]:
        return self._jobs.get(job_id).to_wire()

    def last(self, count: int) -> Sequence[dict[str, Any]]:
        return [job.to_wire() for job in self._jobs.last(max(0, min(count, MOST_LISTED)))]

    def pause(self, job_id: str) -> dict[str, Any]:
        return self._jobs.pause(job_id).to_wire()

    def resume(self, job_id: str) -> dict[str, Any]:
        return self._jobs.resume(job_id).to_wire()

    def cancel(self, job_id: str) -> dict[str, Any]:
        return self._jobs.cancel(job_id).to_wire()

    def retry(self, job_id: str, only: list[str], deadline_s: float | None = None) -> int:
        if not only or not set(only) <= set(RETRIED):
            raise WrongDeclaration(f"only: one or more of {', '.join(RETRIED)}; not {only!r:.80}")
        deadline_at_ms = None if deadline_s is None else self._now_ms + round(deadline_s * 1000)
        return self._jobs.retry(job_id, only, now_ms=self._now_ms, deadline_at_ms=deadline_at_ms)

    def results(self, job_id: str, after: int) -> dict[str, Any]:
        job = self._jobs.get(job_id)
        lines = list(page_of(self._jobs.results(job_id, after=after)))
        return {"lines": lines, "is_ended": job.state == State.ENDED}

    def namespaces(
        self, after: str, limit: Annotated[int, Field(le=MOST_LISTED + 1)], names: list[str] | None
    ) -> list[dict[str, Any]]:
        states = self._resources.namespaces(after=after, limit=limit, names=names)
        fields = ("name", "documents", "passages", "generation")
        return [{name: getattr(state, name) for name in fields} for state in states]

    def namespace(self, name: str, after: str, filters: dict[str, Any]) -> dict[str, Any] | None:
        return self._read(lambda rows: browsing.namespace(rows, name, after, filters))

    def document(
        self, name: str, document_id: str, first: int, filters: dict[str, Any]
    ) -> dict[str, Any] | None:
        return self._read(lambda rows: browsing.document(rows, name, document_id, first, filters))

    def _read(self, read: Callable[[SqlConnection], dict[str, Any] | None]) -> dict[str, Any] | None:
        """None for a namespace that is not there."""
        try:
            return self._resources.documents.within(READ_S, lambda rows, _: read(rows))
        except UnknownNamespace:
            return None


CALLS: Mapping[str, Callable[..., object]] = {
    method.__name__: validate_call(method)
    for method in (
        *(_Calls.create, _Calls.add, _Calls.begin, _Calls.refuse),
        *(_Calls.get, _Calls.last, _Calls.results),
        *(_Calls.pause, _Calls.resume, _Calls.cancel, _Calls.retry),
        *(_Calls.namespaces, _Calls.namespace, _Calls.document),
    )
}
