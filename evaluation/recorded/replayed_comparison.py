"""What another configuration would have answered to past requests: their recorded lists, fused under two configurations A and B.

No search runs.  What is compared is the fused order, before reranking, groups and diversity.  Each pair is of A and of B.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from operator import attrgetter
from types import MappingProxyType

from config.declarations import Pipeline
from evaluation.judged.judged_comparison import (
    JudgedComparison,
    QuestionName,
    RankedQuestion,
    compare_judged,
    is_relevant,
)
from evaluation.recorded.fusion_changes import FusionChanges
from evaluation.recorded.replay import missing_lists, planned_under
from evaluation.recorded.request import RecordedRequest
from fusion.fused_hits import FusedHit
from fusion.question_terms import question_type
from models.errors import NotOffered, ServiceError
from models.plan import Plan
from models.tables.audit import QuestionRow, RequestRow
from records.jobs.comparison import DEPTH, MOST_CHANGED, overlap
from records.judgements.pooling import JudgedQuestion

DEADLINES_MS = (50, 100, 150, 200, 300, 500, 1_000, 2_000)
_RANKED = 100
"""Documents of a judged ranking: those below the tenth move up where unjudged ones are left out."""
MOST_QUESTIONS = 500
"""Requests are compared until there are so many, since each may have many."""


@dataclass(frozen=True, slots=True)
class ComparedQuestion:
    request_id: str
    position: int
    """Among the questions that the request searched."""
    text: str | None
    """None if the trail keeps no texts."""
    first: tuple[str | None, str | None]
    """The first document, or passage where passages were fused."""
    overlap: float
    distance: int
    """`rank_distance` of the first ten."""
    alone: Mapping[str, tuple[int, int]]
    """By branch, the documents among the first ten that no other branch found."""
    is_approximate: bool
    """Whether scores of the stores are not recorded: a document without one has the lowest score of the branch."""
    within: Mapping[int, tuple[float, float]]
    """By deadline in milliseconds, under A: 1 if every branch had reported, and the overlap with the fusion of all reports.
    Empty for a request with several questions, which have no times of their own."""


@dataclass(frozen=True, slots=True)
class ReplayedComparison:
    questions: int
    """Compared; means and shares are over these, and 0 without any."""
    left_out: Mapping[str, int]
    """Questions that could not be compared, by reason, the most frequent first."""
    approximate: int
    changed_first: int
    """Questions with another first document."""
    overlap: float
    moved: Sequence[ComparedQuestion]
    """The least overlap first, then the largest distance."""
    alone: Mapping[str, tuple[int, int]]
    within: Mapping[int, tuple[float, float]]
    judged: JudgedComparison
    """Over the questions with a relevant document, the newest of several with one text."""


def compare_replayed(
    rows: Iterable[RequestRow],
    pipeline: Pipeline,
    a: str | None,
    b: str | None,
    judged: Mapping[QuestionName, JudgedQuestion] = MappingProxyType({}),
    *,
    only_judged: bool = False,
) -> ReplayedComparison:
    """Compare the configurations; None: each request as it was.  `rows` have questions and branches (`records.audit.queries.last`).

    With `only_judged`, each question of `judged` counts once, and no other.
    """
    left_out: Counter[str] = Counter()
    compared: list[ComparedQuestion] = []
    ranked: dict[QuestionName, RankedQuestion] = {}
    for row in rows:
        if len(compared) >= MOST_QUESTIONS:
            left_out[f"{MOST_QUESTIONS:,} questions are compared already"] += len(row.questions)
            continue
        missing = judged.keys() - ranked.keys()
        chosen = [
            question
            for question in row.questions
            if not only_judged or (row.namespace, question.text_hash) in missing
        ]
        for question in _questions(row, chosen, pipeline, (a, b), judged):
            if isinstance(question, str):
                left_out[question] += 1
            else:
                compared.append(question[0])
                ranked.setdefault(question[1].name, question[1])
    moved = sorted(
        (each for each in compared if each.distance), key=lambda each: (each.overlap, -each.distance)
    )
    alone = dict.fromkeys((name for each in compared for name in each.alone), (0, 0))
    for each in compared:
        for name, (alone_a, alone_b) in each.alone.items():
            alone[name] = (alone[name][0] + alone_a, alone[name][1] + alone_b)
    timed = [each.within for each in compared if each.within]
    return ReplayedComparison(
        questions=len(compared),
        left_out=dict(left_out.most_common()),
        approximate=sum(each.is_approximate for each in compared),
        changed_first=sum(each.first[0] != each.first[1] for each in compared),
        overlap=_mean(each.overlap for each in compared),
        moved=_different(moved)[:MOST_CHANGED],
        alone=alone,
        within={
            ms: (_mean(each[ms][0] for each in timed), _mean(each[ms][1] for each in timed))
            for ms in (DEADLINES_MS if timed else ())
        },
        judged=compare_judged(ranked.values(), judged),
    )


def _different(moved: Sequence[ComparedQuestion]) -> list[ComparedQuestion]:
    """Each question once, if it moved in the same way: the first of those that many requests asked."""
    once: dict[object, ComparedQuestion] = {}
    for each in moved:
        once.setdefault((each.text or each.request_id, each.first, each.overlap, each.distance), each)
    return list(once.values())


def rank_distance(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Spearman's footrule: the sum of the ranks by which documents moved.  A document that a list lacks has its next rank (Fagin,
    Kumar and Sivakumar, Comparing Top k Lists, 2003)."""
    was, now = ({id_: rank for rank, id_ in enumerate(ids, start=1)} for ids in (ours, theirs))
    return sum(abs(was.get(id_, len(was) + 1) - now.get(id_, len(now) + 1)) for id_ in was | now)


def _questions(
    row: RequestRow,
    questions: Sequence[QuestionRow],
    pipeline: Pipeline,
    names: tuple[str | None, str | None],
    judged: Mapping[QuestionName, JudgedQuestion],
) -> Iterator[tuple[ComparedQuestion, RankedQuestion] | str]:
    """The comparison of each of these questions of the request, or why there is none."""
    read = _read(row, pipeline, names) if questions else ""
    for question in questions:
        if question.cached or row.ended_by == "cache":
            yield "the answer came from the cache"
        elif isinstance(read, str):
            yield read
        elif question.position not in read[0].plan.searched:
            yield "it was not searched"
        elif question.text is None and any(plan.weights_by_type for plan in read[1:]):
            yield "the trail keeps no texts, and the weights depend on them"
        else:
            name = row.namespace, question.text_hash
            yield _compared(*read, question, judged.get(name))


def _read(
    row: RequestRow, pipeline: Pipeline, names: tuple[str | None, str | None]
) -> tuple[RecordedRequest, Plan, Plan] | str:
    """The request with both plans, or why it cannot be compared."""
    if row.plan is None:
        return f"it was not searched (ended by {row.ended_by})"
    try:
        recorded = RecordedRequest.read(row, pipeline)
    except ServiceError:
        return "another version has written it"
    try:
        a, b = (planned_under(recorded, name) for name in names)
        for plan in (a, b):
            pipeline.kinds.method(plan.method)
    except (NotOffered, ServiceError) as error:
        return str(error)
    for gap in (*missing_lists(recorded, a), *missing_lists(recorded, b)):
        return f"{gap.what}: {gap.why}"
    if not any(result.answered for result in recorded.results.values()):
        return "no branch has answered"
    return recorded, a, b


def _compared(
    recorded: RecordedRequest, a: Plan, b: Plan, question: QuestionRow, judged: JudgedQuestion | None
) -> tuple[ComparedQuestion, RankedQuestion]:
    position = recorded.plan.searched.index(question.position)
    unit_of = attrgetter(f"{recorded.request.fuse_by}_id")
    count = _RANKED if is_relevant(judged) else DEPTH
    ranked = [recorded.fused(plan, position, count=count) for plan in (a, b)]
    hits = [ranking[:DEPTH] for ranking in ranked]
    ours, theirs = (tuple(map(unit_of, first)) for first in hits)
    found_by = [Counter(hit.found_by for hit in first) for first in hits]
    names = dict.fromkeys(branch.name for plan in (a, b) for branch in plan.branches)
    compared = ComparedQuestion(
        request_id=recorded.row.request_id,
        position=position,
        text=question.text,
        first=(next(iter(ours), None), next(iter(theirs), None)),
        overlap=overlap(ours, theirs),
        distance=rank_distance(ours, theirs),
        alone={name: (found_by[0][name,], found_by[1][name,]) for name in names},
        is_approximate=any(recorded.lacks_scores(plan, position) for plan in (a, b)),
        within=_within(recorded, a, position, hits[0]) if len(recorded.plan.searched) == 1 else {},
    )
    without = {
        name: [recorded.fused(plan, position, without={name}, count=DEPTH) for plan in (a, b)]
        for name in (names if is_relevant(judged) else ())
    }
    grades = judged.grades if judged else {}
    lists = {
        name: (_documents(hits_a, grades), _documents(hits_b, grades))
        for name, (hits_a, hits_b) in without.items()
    }
    return compared, RankedQuestion(
        name=(recorded.row.namespace, question.text_hash),
        request_id=recorded.row.request_id,
        question=question.position,
        kind=question_type(question.text) if question.text else "unknown",
        rankings=(_documents(ranked[0], grades), _documents(ranked[1], grades)),
        without=lists,
    )


def _within(
    recorded: RecordedRequest, plan: Plan, position: int, hits: Sequence[FusedHit]
) -> dict[int, tuple[float, float]]:
    unit_of = attrgetter(f"{recorded.request.fuse_by}_id")
    whole = tuple(map(unit_of, hits))
    fused_in_time = {frozenset[str](): whole}
    within = {}
    for ms in DEADLINES_MS:
        late = frozenset(FusionChanges(deadline_ms=ms).late(recorded))
        if late not in fused_in_time:
            in_time = recorded.fused(plan, position, without=late, count=DEPTH)
            fused_in_time[late] = tuple(map(unit_of, in_time))
        reported = {name for name, result in recorded.results.items() if result.answered} - late
        is_complete = all(branch.name in reported for branch in plan.branches)
        within[ms] = (float(is_complete), overlap(fused_in_time[late], whole))
    return within


def _documents(hits: Sequence[FusedHit], judged: Container[str]) -> list[str]:
    """The document of each hit, once; a judged copy stands for its hit, since it is as good an answer."""
    documents: dict[str, None] = {}
    for hit in hits:
        copies = (copy.document_id for copy in hit.folded)
        documents[next((id_ for id_ in (hit.document_id, *copies) if id_ in judged), hit.document_id)] = None
    return [*documents]


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return fsum(numbers) / len(numbers) if numbers else 0.0
