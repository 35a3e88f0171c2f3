"""Which of two configurations A and B ranks judged questions better, how sure that is, and what to judge next.  Pure.

A document that nobody judged is unknown: the measured rankings leave it out, and the ends say what its grade could change.  Each
pair is of A and of B.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from statistics import fmean
from typing import Literal

from evaluation.judged.metrics import DEPTH, Gain, difference_ends, discount_differences, ndcg, paired_gain
from records.judgements.feedback import HIGHEST_GRADE
from records.judgements.pooling import JudgedQuestion

Side = Literal["A", "B"]
QuestionName = tuple[str, str]
"""The namespace and the hash of the text, as `records.judgements.pooling` has them."""
_Graded = tuple[tuple[Sequence[str], Sequence[str]], Mapping[str, int]]
"""The rankings of a question, and its grades."""


@dataclass(frozen=True, slots=True)
class RankedQuestion:
    """A recorded question, and the documents that its lists give under A and under B, best first."""

    name: QuestionName
    request_id: str
    question: int
    """Its position in the request."""
    kind: str
    """One of `fusion.question_terms.QUESTION_TYPES`."""
    rankings: tuple[Sequence[str], Sequence[str]]
    without: Mapping[str, tuple[Sequence[str], Sequence[str]]]
    """By branch, the rankings without it; empty for a question without a relevant document."""


@dataclass(frozen=True, slots=True)
class BranchEffect:
    """The relevant documents that one branch moved into the first ten of questions of one type, or out of them."""

    branch: str
    kind: str
    questions: int
    rescued: tuple[int, int]
    """Not among the first ten without the branch."""
    hurt: tuple[int, int]
    """Among the first ten without the branch alone."""


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question with unjudged documents that A and B rank differently."""

    name: QuestionName
    request_id: str
    question: int
    unjudged: int
    """Number of these documents."""
    possible_change: float
    """The sum of their differences of discount: how much their grades can change the comparison."""
    documents: Sequence[str]
    """The first ten of A and of B."""


@dataclass(frozen=True, slots=True)
class JudgedComparison:
    questions: int
    """Those with a relevant document; everything but `open` is about these, and a mean is 0 without any."""
    ndcg: tuple[float, float]
    """Means, with unjudged documents left out of the rankings."""
    lowest: tuple[float, float]
    """Means, if no unjudged document is relevant."""
    highest: tuple[float, float]
    """Means, if each unjudged document has the best grade."""
    gain: Gain | None
    """Of B over A, by `ndcg`; None without a question."""
    ends: tuple[float, float]
    """No grades of the unjudged documents give a mean difference (B - A) outside of these."""
    hits: tuple[int, int]
    """Number of first ten documents."""
    unjudged: tuple[int, int]
    """Those of them that nobody judged."""
    branches: Sequence[BranchEffect]
    open: Sequence[OpenQuestion]
    """What would settle the comparison soonest comes first."""

    @property
    def better(self) -> Side | None:
        """The side that is better beyond chance."""
        if self.gain is None or not self.gain.is_distinguishable:
            return None
        return "B" if self.gain.mean > 0 else "A"

    @property
    def certain(self) -> Side | None:
        """The side that ranks these questions better whatever the unjudged grades are."""
        return "B" if self.ends[0] > 0 else "A" if self.ends[1] < 0 else None


def compare_judged(
    questions: Collection[RankedQuestion], judged: Mapping[QuestionName, JudgedQuestion]
) -> JudgedComparison:
    """Each of `questions` has a name of its own."""
    graded = [
        (each.rankings, judged[each.name].grades) for each in questions if is_relevant(judged.get(each.name))
    ]
    old, new = _values(graded, None)
    ends = [difference_ends(*rankings, grades) for rankings, grades in graded]
    hits = [[id_ in grades for rankings, grades in graded for id_ in rankings[at][:DEPTH]] for at in (0, 1)]
    return JudgedComparison(
        questions=len(graded),
        ndcg=_means((old, new)),
        lowest=_means(_values(graded, 0)),
        highest=_means(_values(graded, HIGHEST_GRADE)),
        gain=paired_gain(new, old) if graded else None,
        ends=(_mean([low for low, _ in ends]), _mean([high for _, high in ends])),
        hits=(len(hits[0]), len(hits[1])),
        unjudged=(hits[0].count(False), hits[1].count(False)),
        branches=_branch_effects(questions, judged),
        open=_open_questions(questions, judged),
    )


def is_relevant(question: JudgedQuestion | None) -> bool:
    """Whether a document answers the question: without one, every ranking is as good as any."""
    return question is not None and any(grade > 0 for grade in question.grades.values())


def _values(graded: Sequence[_Graded], unjudged: int | None) -> tuple[list[float], list[float]]:
    """nDCG@10 of each question under A and under B."""
    a, b = ([ndcg(rankings[at], grades, unjudged=unjudged) for rankings, grades in graded] for at in (0, 1))
    return a, b


def _means(values: tuple[Sequence[float], Sequence[float]]) -> tuple[float, float]:
    return _mean(values[0]), _mean(values[1])


def _branch_effects(
    questions: Collection[RankedQuestion], judged: Mapping[QuestionName, JudgedQuestion]
) -> list[BranchEffect]:
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * 5)
    for each in questions:
        relevant = (
            {id_ for id_, grade in judged[each.name].grades.items() if grade > 0} if each.without else set()
        )
        for branch, without in each.without.items():
            tally = counts[branch, each.kind]
            tally[0] += 1
            for side in (0, 1):
                with_it = relevant & {*each.rankings[side][:DEPTH]}
                without_it = relevant & {*without[side][:DEPTH]}
                tally[1 + side] += len(with_it - without_it)
                tally[3 + side] += len(without_it - with_it)
    return [
        BranchEffect(branch, kind, n, (rescued_a, rescued_b), (hurt_a, hurt_b))
        for (branch, kind), (n, rescued_a, rescued_b, hurt_a, hurt_b) in sorted(counts.items())
    ]


def _open_questions(
    questions: Collection[RankedQuestion], judged: Mapping[QuestionName, JudgedQuestion]
) -> list[OpenQuestion]:
    open_questions = []
    for each in questions:
        known = judged.get(each.name)
        if known and known.nothing_fits:
            continue
        grades = known.grades if known else {}
        differences = discount_differences(*each.rankings)
        unjudged = [abs(difference) for id_, difference in differences.items() if id_ not in grades]
        if unjudged:
            first = [*dict.fromkeys([*each.rankings[0][:DEPTH], *each.rankings[1][:DEPTH]])]
            ids = each.name, each.request_id, each.question
            open_questions.append(OpenQuestion(*ids, len(unjudged), fsum(unjudged), first))
    return sorted(open_questions, key=lambda question: -question.possible_change)


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
