"""The documents of bulk jobs, beside the client's `Job`."""

from __future__ import annotations

from typing import Any, Literal

from chorale_client.answer import Context, Degradation, Hit
from chorale_client.jobs.job import Job as ClientsJob
from pydantic import BaseModel, ConfigDict, Field

from api.timestamps import Timestamp


class WrongLine(BaseModel):
    line: int
    error: str


class Job(ClientsJob):
    """A bulk job at one moment.  Words are open strings."""

    created_at: Timestamp | None = None
    started_at: Timestamp | None = None
    ended_at: Timestamp | None = None
    deadline_at: Timestamp | None = None


class SubmittedJob(Job):
    """A job that was submitted just now, or before with the same `Idempotency-Key`."""

    wrong_lines: tuple[WrongLine, ...] = ()
    """The first 20 wrong lines; `counts.refused` has their number."""


class JobPage(BaseModel):
    jobs: list[Job]
    next: str | None = Field(None, description="`after` of the next page; null on the last page")


class _Answered(BaseModel):
    status: str
    coverage: float
    removed: dict[str, int] | None = Field(None, description="Absent if no option of the line removes hits")
    relaxed: list[str] | None = Field(None, description="Absent if nothing of `relax` was dropped")
    context: Context | None = Field(None, description="Absent without `context_tokens`")
    confidence: float | None = Field(None, description="Absent if it is not known")
    abstained: bool | None = Field(None, description="Absent without `abstain`")
    signals: dict[str, float] | None = Field(None, description="Absent without `include: explanation`")


class LineAnswer(_Answered):
    """The answer to one question of a line with several."""

    text: str
    hits: list[Hit]


class ResultLine(_Answered):
    """The result of one line of the input.  A line with several questions has their answers in `questions`."""

    line: int
    id: str
    text: str | None = Field(None, description="The question; absent if the line has several, or was refused")
    metadata: dict[str, Any] | None = Field(None, description="As the line brought it")
    hits: list[Hit] | None = Field(None, description="Absent if the line has several questions")
    questions: list[LineAnswer] | None = Field(
        None, description="The answers of a line with several questions"
    )
    degraded: list[Degradation]
    warnings: list[str]
    error: str | None
    deduplicated: bool


class ResultPage(BaseModel):
    lines: list[ResultLine]
    next: int = Field(description="`after` of the next page: the number of the last line")
    is_ended: bool = Field(description="Whether the job has ended; then a page without lines is the last")


class Comparison(BaseModel):
    """Each pair is of the first job and the second."""

    model_config = ConfigDict(extra="allow")

    jobs: tuple[str, str]
    lines: int
    questions: int
    equal_top_hits: float | None
    overlap_at_10: float | None
    unanswered: tuple[int, int]
    degraded: tuple[dict[str, int], dict[str, int]]
    only_in: tuple[int, int]
    most_changed: list[dict[str, str | float]]


class Retry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    only: list[Literal["failed", "expired", "degraded"]] = Field(["failed", "expired"], min_length=1)
    """The lines with these statuses; `expired` includes cancelled lines."""
    deadline_s: float | None = Field(None, gt=0, le=365 * 86_400)


class Retried(BaseModel):
    lines: int = Field(description="Number of lines that are answered again")
    job: Job


class Removed(BaseModel):
    removed: int
