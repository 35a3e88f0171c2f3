"""What callers with keys are told of failures: what and why, without the addresses and folders of the installation.

Details name servers, paths and texts of other programs.  They stay in the logs and in the audit trail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from chorale_client.answer import Answer, Degradation, StageLine
from chorale_client.indexed import NOT_WRITTEN, Indexed
from chorale_client.wire_names import NO_NAMESPACE, THERE_ARE, Reason, Stage

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
    degraded = [one for one in line["degraded"] if not _is_told(one["where"], one["reason"])]
    if not degraded:
        return dict(line)
    kept = [
        one if _is_told(one["where"], one["reason"]) else {**one, "detail": ""} for one in line["degraded"]
    ]
    error = "; ".join(f"{one['where']}: {one['reason']} {one['detail']}".strip() for one in kept)
    return {**line, "degraded": kept, "error": line["error"] and error}


def redacted_index_report(told: Indexed) -> Indexed:
    """The outcome of handed-in documents as a caller with a key gets it."""
    return replace(
        told,
        skipped=[re.sub(f"(: {NOT_WRITTEN}): .*", r"\1", one, flags=re.DOTALL) for one in told.skipped],
        unwritten=dict.fromkeys(told.unwritten, "not every store has taken it yet"),
        error=told.error and "the documents could not be written; the log of the service says why",
    )


def unknown_namespace(answer: Answer, sees: Callable[[str], bool]) -> str | None:
    """What a caller is told of a search in a namespace that is not there, with the namespaces that it may see; None for
    another answer."""
    for one in answer.degraded:
        if one.detail.startswith(NO_NAMESPACE):
            wrong, _, names = one.detail.partition(THERE_ARE)
            seen = [name for name in names.split(", ") if name and sees(name)]
            return f"{wrong}{THERE_ARE}{', '.join(seen)}" if seen else wrong
    return None


def _is_told(where: str, reason: str) -> bool:
    # Details of the planning repeat only what the request itself names.
    return where == Stage.PLAN or reason in _ABOUT_THE_REQUEST


def _degradation(one: Degradation) -> Degradation:
    return one if _is_told(one.where, one.reason) else one.model_copy(update={"detail": ""})


def _stage(line: StageLine) -> StageLine:
    # `openai, feedback (unavailable: …)`
    short = line.detail and line.detail.partition(" (")[0].partition(":")[0]
    return line if short == line.detail else line.model_copy(update={"detail": short})


def _warning(text: str) -> str:
    """A warning of the cache without the text of Redis' error: `cache: unavailable`."""
    return ": ".join(text.split(": ")[:2]) if text.startswith("cache: ") else text
