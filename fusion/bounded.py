"""A limit on the size of an answer: one that is too large keeps its hits' order, ids and scores only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chorale_client.words import Reason, Stage, Status

from fusion.answer import answer_tail, worst
from models.envelope import Degradation

_KEPT = ("rank", "document_id", "passage_id", "score", "score_kind", "rerank", "found_by")


def bounded_tail(fields: Mapping[str, Any], limit_bytes: int) -> tuple[Mapping[str, Any], str]:
    """The fields of `build_answer_tail` and their JSON text.  If that is longer than `limit_bytes`, hits are reduced."""
    tail = answer_tail(fields)
    size = len(tail.encode())
    if size <= limit_bytes:
        return fields, tail
    hits = sum(len(question["hits"]) for question in fields["questions"])
    why = Degradation(
        Stage.FETCH,
        Reason.BUDGET,
        f"{hits:,} hits as asked for have {size / 1e6:,.1f} MB; an answer may have {limit_bytes / 1e6:g} MB, so these "
        "have ids and scores alone: lower top_k, snippet_chars or context_tokens, or include less",
    )
    questions = [_reduced(question) for question in fields["questions"]]
    fields = {
        **fields,
        "status": str(worst(question["status"] for question in questions)),
        "degraded": [*fields["degraded"], why.to_wire()],
        "questions": questions,
    }
    return fields, answer_tail(fields)


def _reduced(question: Mapping[str, Any]) -> dict[str, Any]:
    hits = [{name: hit[name] for name in _KEPT if name in hit} for hit in question["hits"]]
    status = Status.DEGRADED if question["status"] == Status.COMPLETE and hits else question["status"]
    kept = {name: value for name, value in question.items() if name != "context"}
    return {**kept, "status": str(status), "hits": hits}
