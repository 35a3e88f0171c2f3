"""What differs between the results of two jobs over the same lines."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from chorale_client.wire_names import Status

from records.jobs.job import Job, State, WrongState
from records.jobs.store import Jobs

DEPTH = 10
MOST_CHANGED = 10
"""Changed questions that are named, those with the least overlap."""
_ANSWERED = (Status.COMPLETE, Status.DEGRADED)


@dataclass(slots=True)
class Comparison:
    """Each pair is of the first job and the second."""

    lines: int = 0
    """Lines that are in both jobs and answered in both."""
    questions: int = 0
    """Questions of these lines."""
    equal_top_hits: int = 0
    overlap: float = 0.0
    """The sum over the questions of their overlap@10."""
    unanswered: list[int] = field(default_factory=lambda: [0, 0])
    """Lines in both jobs that have no answer in this one."""
    degraded: tuple[Counter[str], Counter[str]] = field(default_factory=lambda: (Counter(), Counter()))
    """Lines by what is missing in them and why: `vector timeout`."""
    only_in: list[int] = field(default_factory=lambda: [0, 0])
    changed: list[tuple[float, str]] = field(default_factory=list)
    """Overlap, and id of the line, of the questions that changed most, the most changed first."""

    def fields(self) -> dict[str, Any]:
        """The comparison as JSON; a share is None if no question was answered in both jobs."""
        shares = {"equal_top_hits": self.equal_top_hits, f"overlap_at_{DEPTH}": self.overlap}
        return {
            "lines": self.lines,
            "questions": self.questions,
            **{
                name: round(total / self.questions, 6) if self.questions else None
                for name, total in shares.items()
            },
            "unanswered": self.unanswered,
            "degraded": [dict(counts.most_common()) for counts in self.degraded],
            "only_in": self.only_in,
            "most_changed": [
                {"id": line_id, f"overlap_at_{DEPTH}": round(share, 6)} for share, line_id in self.changed
            ],
        }


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a comparison needs of a result line."""

    id: str
    is_answered: bool
    tops: tuple[tuple[str, ...], ...]
    """The ids of the first documents for each question."""
    missing: frozenset[str]


def compare(first: Iterable[Mapping[str, Any]], second: Iterable[Mapping[str, Any]]) -> Comparison:
    """Compare result lines by their ids.  In memory are only lines whose counterpart has not come yet."""
    comparison = Comparison()
    for pair in _paired(map(_answer, first), map(_answer, second)):
        for side, answer in enumerate(pair):
            if answer is not None:
                comparison.degraded[side].update(answer.missing)
        before, after = pair
        if before is None or after is None:
            comparison.only_in[before is None] += 1
        elif before.is_answered and after.is_answered:
            _count(comparison, before, after)
        else:
            for side, answer in enumerate((before, after)):
                comparison.unanswered[side] += not answer.is_answered
    return comparison


def compare_jobs(store: Jobs, ended: Sequence[Job]) -> dict[str, Any]:
    """The comparison of two jobs as JSON.  Raises WrongState for a job that has not ended."""
    for job in ended:
        if job.state != State.ENDED:
            raise WrongState(f"job {job.job_id!r} is {job.state}; only ended jobs are compared")
    first, second = (store.results(job.job_id) for job in ended)
    return {"jobs": [job.job_id for job in ended], **compare(first, second).fields()}


def _count(comparison: Comparison, first: _Answer, second: _Answer) -> None:
    comparison.lines += 1
    for ours, theirs in zip(first.tops, second.tops, strict=False):
        comparison.questions += 1
        comparison.equal_top_hits += ours[:1] == theirs[:1]
        share = overlap(ours, theirs)
        comparison.overlap += share
        if ours != theirs:
            insort(comparison.changed, (share, first.id))
            del comparison.changed[MOST_CHANGED:]


def overlap(ours: tuple[str, ...], theirs: tuple[str, ...]) -> float:
    """The documents in both, divided by the length of the longer list; 1 for two empty lists."""
    return len({*ours} & {*theirs}) / max(len(ours), len(theirs)) if ours or theirs else 1.0


def _answer(line: Mapping[str, Any]) -> _Answer:
    answers = line.get("questions") or [line]
    return _Answer(
        line["id"],
        line["status"] in _ANSWERED,
        tuple(
            tuple(dict.fromkeys(hit["document_id"] for hit in answer.get("hits", ())))[:DEPTH]
            for answer in answers
        ),
        frozenset(f"{missing['where']} {missing['reason']}" for missing in line.get("degraded", ())),
    )


def _paired(
    first: Iterable[_Answer], second: Iterable[_Answer]
) -> Iterator[tuple[_Answer | None, _Answer | None]]:
    """The answers with the same id; None where a job lacks it.  A refused line may have the id of another."""
    waiting: tuple[dict[str, list[_Answer]], dict[str, list[_Answer]]] = ({}, {})
    for both in zip_longest(first, second):
        for side, answer in enumerate(both):
            if answer is None:
                continue
            if (others := waiting[1 - side].pop(answer.id, None)) is None:
                waiting[side].setdefault(answer.id, []).append(answer)
                continue
            other, *more = others
            if more:
                waiting[1 - side][answer.id] = more
            yield (other, answer) if side else (answer, other)
    yield from ((answer, None) for answers in waiting[0].values() for answer in answers)
    yield from ((None, answer) for answers in waiting[1].values() for answer in answers)
