"""The stages of a request in one list: those of planning, of each branch, then of fusion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from chorale_client.words import StageStatus, consequence

from fusion.answered import branch_stage
from models.envelope import Degradation, Envelope, StageNote
from models.plan import Plan

_WORST_FIRST = (StageStatus.FAILED, StageStatus.PARTIAL, StageStatus.OK, StageStatus.SKIPPED)


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


def merged(notes: Iterable[StageNote]) -> list[StageNote]:
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


def _branch_notes(branch: str, envelope: Envelope | None, missing: Degradation | None) -> list[StageNote]:
    """The branch's own notes, with its name, and one note for the whole branch."""
    where = branch_stage(branch)
    own = envelope.stages if envelope else ()
    notes = [note if note.detail or note.stage == where else replace(note, detail=branch) for note in own]
    if all(note.stage != where for note in own):
        status, detail, n_in, n_out = StageStatus.OK, None, None, None
        if missing is not None:
            degrades = consequence(missing.reason).degrades
            status, detail = StageStatus.FAILED if degrades else StageStatus.SKIPPED, str(missing.reason)
        elif envelope is not None:
            n_in = len(envelope.rankings)
            n_out = sum(len(ranking.hits) for ranking in envelope.rankings)
        notes.append(StageNote(where, status, envelope.ms if envelope else 0.0, n_in, n_out, detail=detail))
    return notes


def waterfall(
    plan: Plan,
    envelopes: Mapping[str, Envelope],
    reasons: Iterable[Degradation],
    notes: Sequence[StageNote],
) -> list[dict[str, Any]]:
    """The stages as JSON; `notes` are those of fusion and of the caller, for all questions."""
    missing = {one.where: one for one in reasons}
    branches = [
        note
        for branch in (plan.branches if plan.asked else ())
        for note in _branch_notes(
            branch.name, envelopes.get(branch.name), missing.get(branch_stage(branch.name))
        )
    ]
    return [*plan.stages, *(note.to_wire() for note in [*branches, *merged(notes)])]
