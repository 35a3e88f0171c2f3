"""The answer as it goes on the wire, in plain JSON values (`chorale_client.answer` reads it), and the limit on its size.

`request_id`, `correlation_id`, `namespace`, `ended_at` and `took_ms` are written in front by the script that ends the
request, as '{' + head + ',' + `answer_tail(fields)`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from chorale_client.request import Request
from chorale_client.wire_names import (
    WIRE_VERSION,
    WORST_FIRST,
    Reason,
    Stage,
    StageStatus,
    Status,
    consequence,
)
from pydantic_core import to_json

from fusion.branch_results import BranchAnswers, missing_branches, waterfall
from fusion.confidence import UNKNOWN
from fusion.context import Context, passages_of
from fusion.fused_hits import FusedHit, FusedQuestion, hit_to_wire
from fusion.question_terms import QuestionTerms
from models.branch_result import BranchResult, Degradation, StageNote
from models.documents import PassageText
from models.plan import Plan

_NAMED_PASSAGES = 10


def required_branches(request: Request, plan: Plan) -> tuple[str, ...]:
    """The branches without which the request is `failed`: those of `require`, or all with `on_missing: fail`."""
    if request.require or request.on_missing != "fail":
        return request.require
    return tuple(branch.name for branch in plan.branches)


def question_status(
    request: Request, plan: Plan, envelopes: Mapping[str, BranchResult], degraded: Iterable[Degradation]
) -> Status:
    """The status of every searched question: `failed` if the policy is not met, else `degraded` or `complete`."""
    answered = {
        branch.name
        for branch in plan.branches
        if (envelope := envelopes.get(branch.name)) is not None and envelope.answered
    }
    if len(answered) < request.min_branches or not answered.issuperset(required_branches(request, plan)):
        return Status.FAILED
    return (
        Status.DEGRADED
        if any(consequence(degradation.reason).degrades for degradation in degraded)
        else Status.COMPLETE
    )


def worst(statuses: Iterable[str]) -> Status:
    """The status of a request from those of its questions; an unknown status counts as `failed`."""
    known = {status if status in WORST_FIRST else Status.FAILED for status in statuses}
    return next((status for status in WORST_FIRST if status in known), Status.COMPLETE)


def build_question(
    request: Request,
    plan: Plan,
    index: int,
    fused: FusedQuestion | None,
    texts: Mapping[str, PassageText] | None,
    status: Status,
    *,
    context: Context | None = None,
    confidence: float | None = None,
    took_ms: float = 0.0,
) -> dict[str, Any]:
    """One question of the answer; `index` is its place in the request.

    A `failed` or `skipped` question has no hits.  `texts` is by passage id; a hit without a text keeps all fields that
    need none.
    """
    if fused is None or status in (Status.FAILED, Status.SKIPPED):
        fused = FusedQuestion()
    needs_terms = {"snippets", "texts"} & set(request.include)
    also = plan.rules[index].also if index in plan.rules else ()
    terms = QuestionTerms(" ".join((request.questions[index].text, *also)) if needs_terms else "")
    hits = [
        hit_to_wire(
            hit,
            rank,
            score_kind=fused.score_kind or plan.method,
            include=request.include,
            passages=_passages(hit, texts) if texts else (),
            terms=terms,
            snippet_chars=request.snippet_chars,
        )
        for rank, hit in enumerate(fused.hits, start=request.offset + 1)
    ]
    return {
        "text": request.questions[index].text,
        "status": str(status),
        "hits": hits,
        "total_matches": fused.total_matches,
        "ordered_by": fused.ordered_by,
        **({"removed": dict(fused.removed)} if fused.removed else {}),
        **({"rules": list(fused.rules)} if fused.rules else {}),
        **({"also_searched": list(also)} if also and fused.rules else {}),
        **({"relaxed": list(fused.relaxed)} if fused.relaxed else {}),
        **({"context": asdict(context)} if context else {}),
        **_trust(request, fused, confidence),
        "coverage": round(fused.coverage, 6),
        "took_ms": round(took_ms, 3),
    }


def _trust(request: Request, fused: FusedQuestion, confidence: float | None) -> dict[str, Any]:
    trust: dict[str, Any] = {}
    if confidence is not None:
        trust["confidence"] = confidence
    if request.abstain is not None:
        trust["abstained"] = confidence is not None and confidence < request.abstain
    if fused.signals and "explanation" in request.include:
        trust["signals"] = {name: round(value, 6) for name, value in fused.signals.items()}
    return trust


def _unknown_confidence(request: Request, pages: Pages) -> tuple[str, ...]:
    if request.abstain is None or not any(pages.confidences.get(index) is None for index in pages.fused):
        return ()
    return (f"abstain: {UNKNOWN}",)


def _passages(hit: FusedHit, texts: Mapping[str, PassageText]) -> list[PassageText]:
    """The texts to choose a snippet from; without the text of the passage that stands for the hit, none."""
    ids = passages_of(hit) if hit.rerank is None and hit.passage_id in texts else [hit.passage_id]
    return [texts[id_] for id_ in ids if id_ in texts]


def _missing_texts(pages: Pages) -> tuple[str, ...]:
    """Warnings about the passages that a store has lost, and about those that it did not read."""
    passage_ids = dict.fromkeys(hit.passage_id for question in pages.fused.values() for hit in question.hits)
    unread = [id_ for id_ in passage_ids if pages.texts is not None and id_ not in pages.texts]
    return tuple(
        f"{Reason.DOCUMENT_MISSING}: no text in the store for {_named(ids)}{effect}"
        for ids, effect in ((sorted(pages.gone), "; their hits are left out"), (unread, ""))
        if ids
    )


def _named(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _NAMED_PASSAGES} more" if len(ids) > _NAMED_PASSAGES else ""
    return ", ".join(ids[:_NAMED_PASSAGES]) + more


@dataclass(frozen=True, slots=True)
class Pages:
    """The fused questions of a request with their texts, and what was noted while they were made."""

    fused: Mapping[int, FusedQuestion] = field(default_factory=dict)
    """Key: the question's place in the request."""
    texts: Mapping[str, PassageText] | None = None
    """Key: passage id.  None if no texts were fetched; `degraded` then has the reason."""
    stages: Sequence[StageNote] = ()
    degraded: Sequence[Degradation] = ()
    contexts: Mapping[int, Context] = field(default_factory=dict)
    """Key: the question's place in the request."""
    confidences: Mapping[int, float | None] = field(default_factory=dict)
    """Key: the question's place in the request."""
    gone: Collection[str] = ()
    """Passages that a branch found and the store has no longer; none of them is in `fused`."""
    warnings: Sequence[str] = ()


def build_answer_tail(
    results: BranchAnswers, pages: Pages, *, took_ms: float = 0.0, clock: Callable[[], float] | None = None
) -> dict[str, Any]:
    """The answer's fields, except those that the end of the request writes in front.

    `took_ms` goes on every searched question.  Questions that the cache knew come from the plan as they are.  `clock`
    gives seconds, for the milliseconds that snippets took.
    """
    request, plan = results.request, results.plan
    reasons = [
        *(
            Degradation(degradation["where"], degradation["reason"], degradation.get("detail", ""))
            for degradation in plan.degraded
        ),
        *missing_branches(results),
        *pages.degraded,
    ]
    searched_status = question_status(request, plan, results.envelopes, reasons)
    started_s = clock() if clock else 0.0
    questions = [
        _question_at(index, request, plan, pages, searched_status, took_ms)
        for index in range(len(request.questions))
    ]
    notes = [*(note for question in pages.fused.values() for note in question.stages), *pages.stages]
    if "snippets" in request.include and pages.fused:
        n_hits = sum(len(question.hits) for question in pages.fused.values())
        spent_ms = 1_000 * (clock() - started_s) if clock else 0.0
        notes.append(StageNote(Stage.SNIPPET, StageStatus.OK, spent_ms, n_hits, n_hits))
    return {
        "v": WIRE_VERSION,
        "configuration": plan.configuration,
        "method": plan.method,
        "status": str(worst(question["status"] for question in questions)),
        # A request that its policy failed names everything that is missing.
        "degraded": [
            reason.to_wire()
            for reason in reasons
            if searched_status == Status.FAILED or consequence(reason.reason).degrades
        ],
        "stages": waterfall(plan, results.envelopes, reasons, notes),
        "warnings": warnings_of(results, pages),
        "cached": all(index in plan.cached for index in range(len(request.questions))),
        "questions": questions,
    }


def _question_at(
    index: int, request: Request, plan: Plan, pages: Pages, searched_status: Status, took_ms: float
) -> dict[str, Any]:
    if (known := plan.cached.get(index)) is not None:
        return {**known, "text": request.questions[index].text}
    if index not in plan.asked:
        return build_question(request, plan, index, None, None, Status.SKIPPED)
    fused = pages.fused.get(index)
    status = searched_status if fused is not None else Status.FAILED
    if status == Status.DEGRADED and request.on_missing == "empty":
        fused = FusedQuestion()
    context = pages.contexts.get(index) if fused and fused.hits else None
    is_shown = fused is pages.fused.get(index) and status != Status.FAILED
    confidence = pages.confidences.get(index) if is_shown else None
    return build_question(
        request,
        plan,
        index,
        fused,
        pages.texts,
        status,
        context=context,
        confidence=confidence,
        took_ms=took_ms,
    )


def warnings_of(results: BranchAnswers, pages: Pages) -> list[str]:
    """The warnings of the plan and of the fused questions of `pages`."""
    warnings = (
        *results.plan.warnings,
        *(line for question in pages.fused.values() for line in question.warnings),
        *_missing_texts(pages),
        *pages.warnings,
        *_unknown_confidence(results.request, pages),
    )
    return list(dict.fromkeys(warnings))


def answer_tail(fields: Mapping[str, Any]) -> str:
    """The JSON text after the head: '{' + head + ',' + this is the whole document."""
    return to_json(fields, inf_nan_mode="null").decode().removeprefix("{")


_KEPT_FIELDS = ("rank", "document_id", "passage_id", "score", "score_kind", "rerank", "found_by")


def size_limited_tail(fields: Mapping[str, Any], limit_bytes: int) -> tuple[Mapping[str, Any], str]:
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
    questions = [_reduced_question(question) for question in fields["questions"]]
    fields = {
        **fields,
        "status": str(worst(question["status"] for question in questions)),
        "degraded": [*fields["degraded"], why.to_wire()],
        "questions": questions,
    }
    return fields, answer_tail(fields)


def _reduced_question(question: Mapping[str, Any]) -> dict[str, Any]:
    hits = [{name: hit[name] for name in _KEPT_FIELDS if name in hit} for hit in question["hits"]]
    status = Status.DEGRADED if question["status"] == Status.COMPLETE and hits else question["status"]
    kept = {name: value for name, value in question.items() if name != "context"}
    return {**kept, "status": str(status), "hits": hits}
