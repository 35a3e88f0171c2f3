"""The answer as it goes on the wire, in plain JSON values (`chorale_client.answer` reads it).

`request_id`, `correlation_id` and `took_ms` are known only when the request ends: the script that ends it writes them
in front, as '{' + head + ',' + `answer_tail(fields)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from chorale_client.request import Request
from chorale_client.words import (
    WIRE_VERSION,
    WORST_FIRST,
    Reason,
    Stage,
    StageStatus,
    Status,
    consequence,
)
from pydantic_core import to_json

from fusion.answered import BranchAnswers, missing_branches
from fusion.confidence import UNKNOWN
from fusion.context import Context, passages_of
from fusion.fused_hits import FusedHit, FusedQuestion
from fusion.hit_wire import hit_to_wire
from fusion.question_terms import QuestionTerms
from fusion.waterfall import waterfall
from models.documents import PassageText
from models.envelope import Degradation, Envelope, StageNote
from models.plan import Plan

_NAMED_PASSAGES = 10


def required_branches(request: Request, plan: Plan) -> tuple[str, ...]:
    """The branches without which the request is `failed`: those of `require`, or all with `on_missing: fail`."""
    if request.require or request.on_missing != "fail":
        return request.require
    return tuple(branch.name for branch in plan.branches)


def question_status(
    request: Request, plan: Plan, envelopes: Mapping[str, Envelope], degraded: Iterable[Degradation]
) -> Status:
    """The status of every searched question: `failed` if the policy is not met, else `degraded` or `complete`."""
    answered = {
        branch.name
        for branch in plan.branches
        if (envelope := envelopes.get(branch.name)) is not None and envelope.answered
    }
    if len(answered) < request.min_branches or not answered.issuperset(required_branches(request, plan)):
        return Status.FAILED
    return Status.DEGRADED if any(consequence(one.reason).degrades for one in degraded) else Status.COMPLETE


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


def _missing_texts(
    fused: Iterable[FusedQuestion], texts: Mapping[str, PassageText] | None
) -> tuple[str, ...]:
    if texts is None:
        return ()
    missing = list(
        dict.fromkeys(hit.passage_id for one in fused for hit in one.hits if hit.passage_id not in texts)
    )
    if not missing:
        return ()
    named = ", ".join(missing[:_NAMED_PASSAGES])
    more = f" and {len(missing) - _NAMED_PASSAGES} more" if len(missing) > _NAMED_PASSAGES else ""
    return (f"{Reason.DOCUMENT_MISSING}: no text in the store for {named}{more}",)


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


def build_answer_tail(
    found: BranchAnswers, pages: Pages, *, took_ms: float = 0.0, clock: Callable[[], float] | None = None
) -> dict[str, Any]:
    """The answer's fields, except those that the end of the request writes in front.

    `took_ms` goes on every searched question.  Questions that the cache knew come from the plan as they are.  `clock`
    gives seconds, for the milliseconds that snippets took.
    """
    request, plan = found.request, found.plan
    reasons = [
        *(Degradation(one["where"], one["reason"], one.get("detail", "")) for one in plan.degraded),
        *missing_branches(found),
        *pages.degraded,
    ]
    searched_status = question_status(request, plan, found.envelopes, reasons)
    started_s = clock() if clock else 0.0
    questions = [
        _question_at(index, request, plan, pages, searched_status, took_ms)
        for index in range(len(request.questions))
    ]
    notes = [*(note for one in pages.fused.values() for note in one.stages), *pages.stages]
    if "snippets" in request.include and pages.fused:
        shown = sum(len(one.hits) for one in pages.fused.values())
        spent_ms = 1_000 * (clock() - started_s) if clock else 0.0
        notes.append(StageNote(Stage.SNIPPET, StageStatus.OK, spent_ms, shown, shown))
    return {
        "v": WIRE_VERSION,
        "status": str(worst(question["status"] for question in questions)),
        # A request that its policy failed names everything that is missing.
        "degraded": [
            one.to_wire()
            for one in reasons
            if searched_status == Status.FAILED or consequence(one.reason).degrades
        ],
        "stages": waterfall(plan, found.envelopes, reasons, notes),
        "warnings": warnings_of(found, pages),
        "cached": all(index in plan.cached for index in range(len(request.questions))),
        "questions": questions,
    }


def _question_at(
    index: int, request: Request, plan: Plan, pages: Pages, searched_status: Status, took_ms: float
) -> dict[str, Any]:
    if (known := plan.cached.get(index)) is not None:
        return known
    if index not in plan.asked:
        return build_question(request, plan, index, None, None, Status.SKIPPED)
    one = pages.fused.get(index)
    status = searched_status if one is not None else Status.FAILED
    if status == Status.DEGRADED and request.on_missing == "empty":
        one = FusedQuestion()
    context = pages.contexts.get(index) if one and one.hits else None
    is_shown = one is pages.fused.get(index) and status != Status.FAILED
    confidence = pages.confidences.get(index) if is_shown else None
    return build_question(
        request,
        plan,
        index,
        one,
        pages.texts,
        status,
        context=context,
        confidence=confidence,
        took_ms=took_ms,
    )


def warnings_of(found: BranchAnswers, pages: Pages) -> list[str]:
    """The warnings of the plan and of the fused questions of `pages`."""
    said = (
        *found.plan.warnings,
        *(line for one in pages.fused.values() for line in one.warnings),
        *_missing_texts(pages.fused.values(), pages.texts),
        *_unknown_confidence(found.request, pages),
    )
    return list(dict.fromkeys(said))


def answer_tail(fields: Mapping[str, Any]) -> str:
    """The JSON text after the head: '{' + head + ',' + this is the whole document."""
    return to_json(fields, inf_nan_mode="null").decode().removeprefix("{")
