"""Failures as callers with keys see them: what and why, without the addresses and folders of the installation.

Details name servers, paths and texts of other programs.  They stay in the logs and in the rows of the audit trail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from chorale_client.answer import Answer, Degradation, StageLine
from chorale_client.index_tickets import NOT_WRITTEN, Indexed
from chorale_client.wire_names import NO_ENCODER, NO_NAMESPACE, THERE_ARE, Reason, Stage

from models.tables.audit import RequestRow

_ABOUT_THE_REQUEST = frozenset(
    {
        Reason.NOT_DECLARED,
        Reason.RULE,
        Reason.ADAPTIVE,
        Reason.BUDGET,
        Reason.CANCELLED,
        Reason.OVERLOAD,
        Reason.NOT_STARTED,
        Reason.LATE,
    }
)
"""Reasons whose details are the service's own words."""


def redacted(answer: Answer) -> Answer:
    """The answer as a caller with a key gets it."""
    return answer.model_copy(
        update={
            "degraded": tuple(map(_degradation, answer.degraded)),
            "stages": tuple(map(_stage, answer.stages)),
            "warnings": tuple(map(_warning, answer.warnings)),
        }
    )


def redacted_line(line: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a job's line as a caller with a key gets it."""
    parts = redacted_parts(line["degraded"])
    if parts == line["degraded"]:
        return dict(line)
    error = "; ".join(f"{part['where']}: {part['reason']} {part['detail']}".strip() for part in parts)
    return {**line, "degraded": parts, "error": line["error"] and error}


def redacted_parts(degraded: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What an answer lacks, as it is in JSON."""
    return [
        {**part} if _is_public(part["where"], part["reason"]) else {**part, "detail": ""} for part in degraded
    ]


def redact_row(row: RequestRow) -> None:
    """Changes a past search to what a caller with a key gets.  The row must not belong to an open transaction."""
    row.degraded = redacted_parts(row.degraded)
    row.stages = _redacted_stages(row.stages)
    row.warnings = [*map(_warning, row.warnings)]
    if row.plan:
        row.plan = {
            **row.plan,
            "degraded": redacted_parts(row.plan.get("degraded", ())),
            "stages": _redacted_stages(row.plan.get("stages", ())),
            "warnings": [*map(_warning, row.plan.get("warnings", ()))],
        }
    for branch in row.branches:
        if branch.reason and not _is_public(f"search.{branch.branch}", branch.reason):
            branch.detail = ""


def redacted_index_report(report: Indexed) -> Indexed:
    """The outcome of handed-in documents as a caller with a key gets it."""
    return replace(
        report,
        skipped=[re.sub(f"(: {NOT_WRITTEN}): .*", r"\1", entry, flags=re.DOTALL) for entry in report.skipped],
        unwritten=dict.fromkeys(report.unwritten, "not every store has taken it yet"),
        error=report.error
        and (
            report.error
            if report.error.startswith(NO_ENCODER)
            else "the documents could not be written; the log of the service says why"
        ),
    )


def unknown_namespace(answer: Answer, sees: Callable[[str], bool]) -> str | None:
    """The error that a caller gets for a search in a namespace that is not there, with the namespaces that it may
    see; None for another answer."""
    for part in answer.degraded:
        if part.detail.startswith(NO_NAMESPACE):
            complaint, _, names = part.detail.partition(THERE_ARE)
            visible = [name for name in names.split(", ") if name and sees(name)]
            return f"{complaint}{THERE_ARE}{', '.join(visible)}" if visible else complaint
    return None


def _is_public(where: str, reason: str) -> bool:
    # Details of the planning repeat only what the request itself names.
    return where == Stage.PLAN or reason in _ABOUT_THE_REQUEST


def _degradation(part: Degradation) -> Degradation:
    return part if _is_public(part.where, part.reason) else part.model_copy(update={"detail": ""})


def _stage(line: StageLine) -> StageLine:
    short = line.detail and _stage_detail(line.stage, line.detail)
    return line if short == line.detail else line.model_copy(update={"detail": short})


def _redacted_stages(stages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**line, "detail": _stage_detail(line["stage"], line["detail"])} if line.get("detail") else {**line}
        for line in stages
    ]


def _stage_detail(stage: str, detail: str) -> str:
    if stage == Stage.INTERLEAVE:  # the ids of hits that the answer has
        return detail
    return detail.partition(" (")[0].partition(":")[0]  # `openai, feedback (unavailable: …)`


def _warning(text: str) -> str:
    """A warning of the cache without the text of Redis' error: `cache: unavailable`."""
    return ": ".join(text.split(": ")[:2]) if text.startswith("cache: ") else text
