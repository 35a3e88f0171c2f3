"""The answer as it goes on the wire, in plain JSON values (`chorale_client.answer` reads it), and the limit on its size.

`request_id`, `correlation_id`, `namespace`, `ended_at` and `took_ms` stand in front of these fields: the script that ends the
request puts them there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
from fusion.rankings import Scores
from models.branch_result import Degradation, StageNote
from models.documents import PassageText

_NAMED_PASSAGES = 10


def question_status(answers: BranchAnswers, degraded: Iterable[Degradation] = ()) -> Status:
    """The status of every searched question: `failed` if the policy is not met, else `degraded` or `complete`."""
    names = [branch.name for branch in answers.plan.branches]
    answered = {
        name for name in names if name in answers.branch_results and answers.branch_results[name].answered
    }
    if not meets_policy(answers.request, names, answered):
        return Status.FAILED
    return (
        Status.DEGRADED
        if any(consequence(degradation.reason).degrades for degradation in degraded)
        else Status.COMPLETE
    )


def meets_policy(request: Request, branches: Collection[str], answered: set[str]) -> bool:
    """Whether enough of the request's branches have answered."""
    # With `on_missing: fail` and without `require`, every branch is required.
    required = request.require or (branches if request.on_missing == "fail" else ())
    return len(answered) >= request.min_branches and answered.issuperset(required)


def worst(statuses: Iterable[str]) -> Status:
    """The status of a request from those of its questions; an unknown status counts as `failed`."""
    known = {status if status in WORST_FIRST else Status.FAILED for status in statuses}
    return next((status for status in WORST_FIRST if status in known), Status.COMPLETE)


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
    """The fused questions of a request with their texts, and what was noted while they were made.  Each step makes new ones."""

    fused: Mapping[int, FusedQuestion] = field(default_factory=dict)
    """Key: the question's place in the request."""
    texts: Mapping[str, PassageText] | None = None
    """Key: passage id.  None if no texts were fetched; `degraded` then has the reason."""
    stages: tuple[StageNote, ...] = ()
    degraded: tuple[Degradation, ...] = ()
    contexts: Mapping[int, Context] = field(default_factory=dict)
    """Key: the question's place in the request."""
    confidences: Mapping[int, float | None] = field(default_factory=dict)
    """Key: the question's place in the request."""
    gone: Collection[str] = ()
    """Passages that a branch found and the store has no longer; none of them is in `fused`."""
    warnings: tuple[str, ...] = ()
    known: Mapping[str, PassageText] = field(default_factory=dict)
    """Every text that is known, by passage id; `texts` are those of the answer."""

    scores: Sequence[Scores] = ()
    """The scores that completed the rankings, for each question asked; empty: none were to be completed."""

    def after(self, note: StageNote | None, why: Degradation | None = None, **changes: Any) -> Pages:
        """The pages after a stage: with its changes, what it has done, and why something is missing."""
        stages = self.stages if note is None else (*self.stages, note)
        degraded = self.degraded if why is None or why in self.degraded else (*self.degraded, why)
        return replace(self, stages=stages, degraded=degraded, **changes)

    @property
    def hits(self) -> list[FusedHit]:
        return [hit for page in self.fused.values() for hit in page.hits]


def answer_fields(
    answers: BranchAnswers, pages: Pages, *, took_ms: float = 0.0, clock: Callable[[], float] | None = None
) -> dict[str, Any]:
    """The answer's fields, except those that the end of the request writes in front.

    `took_ms` goes on every searched question.  Questions that the cache knew come from the plan as they are.  `clock`
    gives seconds, for the milliseconds that snippets took.
    """
    request, plan = answers.request, answers.plan
    reasons = [
        *(
            Degradation(degradation["where"], degradation["reason"], degradation.get("detail", ""))
            for degradation in plan.degraded
        ),
        *missing_branches(answers),
        *pages.degraded,
    ]
    searched_status = question_status(answers, reasons)
    started_s = clock() if clock else 0.0
    questions = []
    for index in range(len(request.questions)):
        if (known := plan.cached.get(index)) is not None:
            questions.append({**known, "text": request.questions[index].text})
            continue
        status = searched_status if index in pages.fused else Status.FAILED
        status = status if index in plan.searched else Status.SKIPPED
        questions.append(build_question(answers, index, pages, status, took_ms=took_ms))
    notes = [*(note for question in pages.fused.values() for note in question.stages), *pages.stages]
    if "snippets" in request.include and pages.fused:
        n_hits = sum(len(question.hits) for question in pages.fused.values())
        spent_ms = 1_000 * (clock() - started_s) if clock else 0.0
        notes.append(StageNote(Stage.SNIPPET, StageStatus.OK, spent_ms, n_hits, n_hits))
    return {
        "v": WIRE_VERSION,
        "configuration": plan.configuration,
        "method": plan.method,
        "top_k": request.top_k,
        "depth": request.effective_depth,
        "rerank": "off" if plan.rerank is None else "on",
        "rerank_depth": plan.rerank and plan.rerank.depth,
        "status": str(worst(question["status"] for question in questions)),
        # A request that its policy failed names everything that is missing.
        "degraded": [
            reason.to_wire()
            for reason in reasons
            if searched_status == Status.FAILED or consequence(reason.reason).degrades
        ],
        "stages": waterfall(answers, reasons, notes),
        "warnings": warnings_of(answers, pages),
        "cached": all(index in plan.cached for index in range(len(request.questions))),
        "questions": questions,
    }


def build_question(
    answers: BranchAnswers, index: int, pages: Pages, status: Status, *, took_ms: float = 0.0
) -> dict[str, Any]:
    """One question of the answer; `index` is its place in the request.

    A `failed` or `skipped` question has no hits, nor has a `degraded` one with `on_missing: empty`.  A hit without a text
    keeps all fields that need none.
    """
    request, plan, texts = answers.request, answers.plan, pages.texts
    is_emptied = status == Status.DEGRADED and request.on_missing == "empty"
    fused, confidence = FusedQuestion(), None
    if index in pages.fused and not is_emptied and status not in (Status.FAILED, Status.SKIPPED):
        fused, confidence = pages.fused[index], pages.confidences.get(index)
    context = pages.contexts.get(index) if fused.hits else None
    needs_terms = {"snippets", "texts"} & set(request.include)
    also = plan.rules[index].also if index in plan.rules else ()
    terms = QuestionTerms(" ".join((request.questions[index].text, *also)) if needs_terms else "")
    hits = [
        hit_to_wire(
            hit,
            rank,
            score_kind=hit.score_kind or fused.score_kind or plan.method,
            include=request.include,
            passages=_passages(hit, texts) if texts else (),
            terms=terms,
            snippet_chars=request.snippet_chars,
        )
        for rank, hit in enumerate(fused.hits, start=request.offset + 1)
    ]
    optional: dict[str, Any] = {
        "removed": dict(fused.removed),
        "rules": list(fused.rules),
        "also_searched": list(also) if fused.rules else (),
        "relaxed": list(fused.relaxed),
        "context": asdict(context) if context else None,
    }
    trust: dict[str, Any] = {} if confidence is None else {"confidence": confidence}
    if request.abstain is not None:
        trust["abstained"] = confidence is not None and confidence < request.abstain
    if fused.signals and "explanation" in request.include:
        trust["signals"] = {name: round(value, 6) for name, value in fused.signals.items()}
    return {
        "text": request.questions[index].text,
        "status": str(status),
        "hits": hits,
        "total_matches": fused.total_matches,
        "ordered_by": fused.ordered_by,
        **{name: value for name, value in optional.items() if value},
        **trust,
        "coverage": round(fused.coverage, 6),
        "took_ms": round(took_ms, 3),
    }


def warnings_of(answers: BranchAnswers, pages: Pages) -> list[str]:
    """The warnings of the plan and of the fused questions of `pages`."""
    is_unknown = any(pages.confidences.get(index) is None for index in pages.fused)
    warnings = (
        *answers.plan.warnings,
        *(line for question in pages.fused.values() for line in question.warnings),
        *_missing_texts(pages),
        *pages.warnings,
        *([f"abstain: {UNKNOWN}"] if answers.request.abstain is not None and is_unknown else ()),
    )
    return list(dict.fromkeys(warnings))


_SHORT_HIT_FIELDS = ("rank", "document_id", "passage_id", "score", "score_kind", "rerank", "found_by")


def size_limited(fields: Mapping[str, Any], limit_bytes: int) -> tuple[Mapping[str, Any], bytes]:
    """The fields of an answer and their JSON.  If that is longer than `limit_bytes`, hits are reduced."""
    body = to_json(fields, inf_nan_mode="null")
    size = len(body)
    if size <= limit_bytes:
        return fields, body
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
    return fields, to_json(fields, inf_nan_mode="null")


def _reduced_question(question: Mapping[str, Any]) -> dict[str, Any]:
    hits = [{name: hit[name] for name in _SHORT_HIT_FIELDS if name in hit} for hit in question["hits"]]
    status = Status.DEGRADED if question["status"] == Status.COMPLETE and hits else question["status"]
    rest = {name: value for name, value in question.items() if name != "context"}
    return {**rest, "status": str(status), "hits": hits}
