"""Failures as callers with keys see them: what and why, without the addresses and folders of the installation.

Details name servers, paths and texts of other programs.  They stay in the logs and in the audit trail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from chorale_client.answer import Answer, Degradation, StageLine
from chorale_client.index_tickets import NOT_WRITTEN, Indexed
from chorale_client.wire_names import NO_ENCODER, NO_NAMESPACE, THERE_ARE, Reason, Stage

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
    degraded = [part for part in line["degraded"] if not _is_public(part["where"], part["reason"])]
    if not degraded:
        return dict(line)
    kept = [
        part if _is_public(part["where"], part["reason"]) else {**part, "detail": ""}
        for part in line["degraded"]
    ]
    error = "; ".join(f"{part['where']}: {part['reason']} {part['detail']}".strip() for part in kept)
    return {**line, "degraded": kept, "error": line["error"] and error}


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
    if line.stage == Stage.INTERLEAVE:  # the ids of hits that the answer has
        return line
    # `openai, feedback (unavailable: …)`
    short = line.detail and line.detail.partition(" (")[0].partition(":")[0]
    return line if short == line.detail else line.model_copy(update={"detail": short})


def _warning(text: str) -> str:
    """A warning of the cache without the text of Redis' error: `cache: unavailable`."""
    return ": ".join(text.split(": ")[:2]) if text.startswith("cache: ") else text
