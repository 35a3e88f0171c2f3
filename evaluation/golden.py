"""Asks golden questions and judges the answers: an expected document among the first hits, or nothing where nothing answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import fsum, log2
from typing import Any

from chorale_client.answer import Answer, Hit, QuestionAnswer
from chorale_client.errors import InvalidRequest
from chorale_client.request import Request
from chorale_client.request_factory import make_request
from chorale_client.wire_names import Status

from evaluation.golden_file import GoldenQuestion, WrongGolden
from evaluation.run import DEPTH, TIMEOUT_S, ranked_documents

CUT = 10
"""Hits of a page; recall and nDCG read so many documents."""


@dataclass(frozen=True, slots=True)
class Found:
    """Where an expected document stands."""

    document_id: str
    rank: int | None
    """Among the first DEPTH documents; None if it is not there."""
    branches: Mapping[str, int]
    """Its rank by branch that found it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one golden question."""

    question: GoldenQuestion
    passed: bool
    ranked: Sequence[str]
    """The first CUT documents."""
    abstained: bool
    confidence: float | None
    missing: str
    """What the answer lacked (`search.hyde timeout`); empty if it is complete."""
    found: Sequence[Found] = ()
    """The expected documents, if the question failed."""

    def to_wire(self) -> dict[str, Any]:
        return {
            "line": self.question.line,
            "question": self.question.text,
            "passed": self.passed,
            "abstained": self.abstained,
            "confidence": self.confidence,
            "missing": self.missing,
            "ranked": list(self.ranked),
            "expected": dict(self.question.expected),
            "found": [asdict(place) for place in self.found],
        }


def judge(
    questions: Sequence[GoldenQuestion],
    *,
    ask: Callable[[Request], Answer],
    top: int = 5,
    progress: Callable[[], None] = lambda: None,
    **options: Any,
) -> list[Verdict]:
    """Ask each question as a caller would, but without the cache, and judge the answer.

    A question passes if one of its documents is among the first `top`, or if nothing answers it and the answer
    abstains.  `options` are of the request; `namespace` is that of questions without one.  Raises WrongGolden for a
    question that no request can have, before the first request, and the exceptions of `ask`.
    """
    requests = [
        (question, _request(question, options, CUT), _request(question, options, DEPTH))
        for question in questions
    ]
    verdicts = []
    for question, request, deep in requests:
        verdict, hits = _judged(question, ask(request), top)
        if not verdict.passed and question.expected:
            hits = [*hits, *(hit for question in ask(deep).questions for hit in question.hits)]
            verdict = replace(verdict, found=[_found(id_, hits) for id_ in question.expected])
        verdicts.append(verdict)
        progress()
    return verdicts


def figures(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """Mean recall and nDCG at CUT over the questions that a document answers; empty without such questions."""
    answerable = [verdict for verdict in verdicts if verdict.question.expected]
    if not answerable:
        return {}
    recalls = [recall(verdict.question.expected, verdict.ranked) for verdict in answerable]
    gains = [ndcg(verdict.question.expected, verdict.ranked) for verdict in answerable]
    return {"recall@10": fsum(recalls) / len(recalls), "ndcg@10": fsum(gains) / len(gains)}


def recall(grades: Mapping[str, int], ranked: Sequence[str]) -> float:
    """Share of the documents that are among the first CUT."""
    return len(grades.keys() & set(ranked[:CUT])) / len(grades)


def ndcg(grades: Mapping[str, int], ranked: Sequence[str]) -> float:
    """nDCG at CUT with grades as gains (Järvelin and Kekäläinen 2002), as trec_eval computes it."""
    best = sorted(grades.values(), reverse=True)
    return _gain([grades.get(id_, 0) for id_ in ranked]) / _gain(best)


def _gain(grades: Sequence[int]) -> float:
    return fsum(grade / log2(rank + 1) for rank, grade in enumerate(grades[:CUT], start=1))


def _request(question: GoldenQuestion, options: Mapping[str, Any], top_k: int) -> Request:
    own = {"namespace": question.namespace} if question.namespace else {}
    fields = {"timeout_s": TIMEOUT_S, "include": ["ids", "explanation"], "cache": "bypass", **options, **own}
    try:
        return make_request(question.text, top_k=top_k, filters=dict(question.filters), **fields)
    except InvalidRequest as error:
        raise WrongGolden(f"line {question.line}: {error}") from None


def _judged(question: GoldenQuestion, answer: Answer, top: int) -> tuple[Verdict, Sequence[Hit]]:
    # A request that was refused, or failed as a whole, has no questions.
    judged = answer.questions[0] if answer.questions else QuestionAnswer(status=answer.status)
    ranked = ranked_documents(judged)[:CUT]
    missing = ", ".join(f"{what.where} {what.reason}" for what in answer.degraded)
    if judged.status not in (Status.COMPLETE, Status.SKIPPED):
        missing = missing or judged.status
    if question.expected:
        passed = any(id_ in question.expected for hit in judged.hits[:top] for id_ in _documents(hit))
    else:
        passed = judged.abstained
    return Verdict(question, passed, ranked, judged.abstained, judged.confidence, missing), judged.hits


def _found(document_id: str, hits: Iterable[Hit]) -> Found:
    """`hits`: those of the page, then those of the deep answer."""
    for hit in hits:
        if document_id in _documents(hit):
            ranks = {name: branch.rank for name, branch in hit.branches.items() if branch.rank}
            return Found(document_id, hit.rank, ranks)
    return Found(document_id, None, {})


def _documents(hit: Hit) -> list[str]:
    """The document and its copies: each is as good an answer as the other."""
    return [hit.document_id, *(copy.document_id for copy in hit.folded)]
