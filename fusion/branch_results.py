"""The answers of a request's branches, the late and failed branches that are left out, and the stages of the request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chorale_client.request import Request
from chorale_client.wire_names import BranchStatus, Reason, Stage, StageStatus, consequence

from models.branch_result import BranchResult, Degradation, StageNote
from models.hits import Ranking
from models.plan import Plan


@dataclass(frozen=True, slots=True)
class BranchAnswers:
    """What the branches of one request had reported when the waiting for them ended."""

    request: Request
    plan: Plan
    branch_results: Mapping[str, BranchResult] = field(default_factory=dict)
    """Key: branch name."""
    absent: Mapping[str, Degradation] = field(default_factory=dict)
    """Why a branch has no result; `not_started` for a branch that is in neither mapping."""
    moments_ms: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """`first_start_ms` and `sent_again_ms` of a branch's stage, which the ledger knows."""

    @property
    def models(self) -> Mapping[str, str]:
        """The fingerprints of the models by role, of which the namespace may have its own encoder."""
        own = next((result.embedder for result in self.branch_results.values() if result.embedder), None)
        return self.plan.models if own is None else {**self.plan.models, "embedder": own}


def without_passages(answers: BranchAnswers, passage_ids: Collection[str]) -> BranchAnswers:
    """The answers as if no branch had found these passages."""
    branch_results = {
        name: replace(
            branch_result,
            rankings=tuple(
                replace(ranking, hits=tuple(hit for hit in ranking.hits if hit.passage_id not in passage_ids))
                for ranking in branch_result.rankings
            ),
        )
        for name, branch_result in answers.branch_results.items()
    }
    return replace(answers, branch_results=branch_results)


def branch_stage(branch: str) -> str:
    return f"{Stage.SEARCH}.{branch}"


def ranking_of(branch_result: BranchResult | None, position: int) -> Ranking | None:
    """The branch's ranking for the question at `position` of `plan.searched`; None if the branch did not answer it."""
    if branch_result is None or not branch_result.answered:
        return None
    if position < len(branch_result.rankings):
        return branch_result.rankings[position]
    return Ranking() if branch_result.status == BranchStatus.EMPTY else None


def missing_branches(answers: BranchAnswers) -> tuple[Degradation, ...]:
    """Why branches did not answer all questions, or not as they should, in the plan's order.

    Where nothing was searched, nothing is missing.
    """
    plan = answers.plan
    if not plan.searched:
        return ()
    missing = []
    for branch in plan.branches:
        where, branch_result = branch_stage(branch.name), answers.branch_results.get(branch.name)
        if branch_result is None:
            missing.append(answers.absent.get(branch.name) or Degradation(where, Reason.NOT_STARTED))
        elif not branch_result.answered:
            missing.append(Degradation(where, branch_result.reason or Reason.ERROR, branch_result.detail))
        elif any(ranking_of(branch_result, position) is None for position in range(len(plan.searched))):
            detail = f"answered {len(branch_result.rankings)} of {len(plan.searched)} questions"
            missing.append(Degradation(where, Reason.INVALID_ANSWER, detail))
        if branch_result is not None:
            missing.extend(branch_result.degraded)
    return tuple(missing)


_WORST_FIRST = (StageStatus.FAILED, StageStatus.PARTIAL, StageStatus.OK, StageStatus.SKIPPED)


def _sum(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b


def merged_notes(notes: Iterable[StageNote]) -> list[StageNote]:
    """One note for each stage, in order of appearance; milliseconds and counts are summed over the questions."""
    by_stage: dict[str, StageNote] = {}
    for note in notes:
        if (before := by_stage.get(note.stage)) is None:
            by_stage[note.stage] = note
            continue
        statuses = (before.status, note.status)
        by_stage[note.stage] = replace(
            before,
            status=next((status for status in _WORST_FIRST if status in statuses), before.status),
            ms=before.ms + note.ms,
            n_in=_sum(before.n_in, note.n_in),
            n_out=_sum(before.n_out, note.n_out),
            detail=before.detail or note.detail,
        )
    return list(by_stage.values())


def _branch_notes(
    branch: str, branch_result: BranchResult | None, missing: Degradation | None
) -> list[StageNote]:
    """The branch's own notes, with its name, and one note for the whole branch."""
    where = branch_stage(branch)
    own = branch_result.stages if branch_result else ()
    notes = [note if note.detail or note.stage == where else replace(note, detail=branch) for note in own]
    if all(note.stage != where for note in own):
        status, detail, n_in, n_out = StageStatus.OK, None, None, None
        if missing is not None:
            degrades = consequence(missing.reason).degrades
            status, detail = StageStatus.FAILED if degrades else StageStatus.SKIPPED, str(missing.reason)
        elif branch_result is not None:
            n_in = len(branch_result.rankings)
            n_out = sum(len(ranking.hits) for ranking in branch_result.rankings)
        notes.append(
            StageNote(where, status, branch_result.ms if branch_result else 0.0, n_in, n_out, detail=detail)
        )
    return notes


def waterfall(
    answers: BranchAnswers, reasons: Iterable[Degradation], notes: Sequence[StageNote]
) -> list[dict[str, Any]]:
    """The stages as JSON; `notes` are those of fusion and of the caller, for all questions."""
    plan = answers.plan
    missing = {reason.where: reason for reason in reasons}
    branches = []
    for branch in plan.branches if plan.searched else ():
        name, where = branch.name, branch_stage(branch.name)
        moments: Mapping[str, Any] = answers.moments_ms.get(name, {})
        branches += [
            replace(note, **moments) if moments and note.stage == where else note
            for note in _branch_notes(name, answers.branch_results.get(name), missing.get(where))
        ]
    return [*plan.stages, *(note.to_wire() for note in [*branches, *merged_notes(notes)])]


class StageNotes:
    """The notes of stages; milliseconds are 0 without a clock."""

    def __init__(self, clock: Callable[[], float] | None) -> None:
        self._clock = clock
        self._last_s = clock() if clock else 0.0
        self.notes: list[StageNote] = []
        self.removed: dict[str, int] = {}
        """Number of hits that an option of the request removed, by the option."""

    def add(self, stage: str, n_in: int, n_out: int) -> None:
        now_s = self._clock() if self._clock else 0.0
        self.notes.append(StageNote(stage, StageStatus.OK, 1_000 * (now_s - self._last_s), n_in, n_out))
        self._last_s = now_s

    def remove(self, stage: str, option: str, n_in: int, n_out: int) -> None:
        self.removed[option] = n_in - n_out
        self.add(stage, n_in, n_out)

    def skip(self, stage: str) -> None:
        self.notes.append(StageNote(stage, StageStatus.SKIPPED, detail=Reason.NOT_DECLARED))
