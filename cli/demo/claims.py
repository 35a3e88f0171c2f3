"""Checks the claim of each demo screen on its answer; returns a sentence for a claim that does not hold, else None."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chorale_client.wire_names import Reason, Stage, Status

from cli.demo.questions import DemoQuestion, Shows

if TYPE_CHECKING:
    from chorale_client import Answer, Hit

LEXICAL, DENSE = "bm25", "vector"
LOW_COSINE = 0.25
"""With this model, a lower cosine means that the passage is about something else; good answers reach .34."""
UNSEEN_RANK = 10
"""A lower-ranked document is not on the first screen and counts as not found."""


def broken_question(question: DemoQuestion, answer: Answer) -> str | None:
    """`answer` includes its explanation."""
    if not_whole := broken_whole(answer):
        return not_whole
    outside = [
        hit.document_id
        for hit in answer.hits
        if any(hit.metadata.get(field) != value for field, value in question.filters.items())
    ]
    if outside:
        return f"{outside[0]} does not meet the filter"
    if question.expected is None:
        has_lexical_hits, cosine = found_by(LEXICAL, answer) > 0, best_cosine(answer)
        if has_lexical_hits or cosine >= LOW_COSINE:
            return f"something answers: lexical hits {has_lexical_hits}, best cosine {cosine:.2f}"
        return None
    first = answer.hits[0].document_id if answer.hits else None
    if first != question.expected:
        return f"the first hit is {first}, not {question.expected}"
    ranks = ranks_of(question.expected, answer)
    bm25, vector = (ranks.get(branch, UNSEEN_RANK + 1) for branch in (LEXICAL, DENSE))
    holds = {
        Shows.ONLY_BM25: bm25 == 1 and vector > UNSEEN_RANK,
        Shows.ONLY_VECTORS: vector == 1 and bm25 > UNSEEN_RANK,
        Shows.FUSION: min(bm25, vector) > 1,
        Shows.FILTER: True,
    }[question.shows]
    return None if holds else f"{question.expected} has rank {bm25} in BM25 and {vector} among the vectors"


def broken_whole(answer: Answer) -> str | None:
    if answer.status == Status.COMPLETE:
        return None
    missing = ", ".join(f"{one.where} {one.reason}" for one in answer.degraded)
    return f"the answer is {answer.status}: {missing or 'no reason'}"


def broken_degraded(answer: Answer, *, timeout_s: float) -> str | None:
    """The answer came in time, from all branches but the stopped one, which it names."""
    where = f"{Stage.SEARCH}.{DENSE}"
    said = [(one.where, one.reason) for one in answer.degraded]
    if answer.status != Status.DEGRADED or said != [(where, Reason.NOT_STARTED)]:
        return f"the answer is {answer.status} and misses {said}, not {where} alone as {Reason.NOT_STARTED}"
    if not answer.hits:
        return "the other branches found nothing"
    if answer.took_ms > timeout_s * 1000:
        return f"it took {answer.took_ms:.0f} ms of {timeout_s * 1000:.0f}"
    return None


def broken_resumed(answer: Answer) -> str | None:
    """The answer is complete again, and not from the cache."""
    if answer.cached:
        return "the degraded answer was kept in the cache"
    if found_by(DENSE, answer) == 0:
        return "the branch that was held still found nothing"
    return broken_whole(answer)


def broken_cached(answer: Answer, before: Answer) -> str | None:
    """The answer has the same hits, from the cache."""
    if not answer.cached:
        return "the answer was not in the cache"
    if [hit.document_id for hit in answer.hits] != [hit.document_id for hit in before.hits]:
        return "the cache holds other hits"
    return broken_whole(answer)


def ranks_of(document_id: str | None, answer: Answer) -> dict[str, int]:
    """The rank of a document in each branch; empty if it is not among the hits."""
    found: Hit | None = next((hit for hit in answer.hits if hit.document_id == document_id), None)
    return (
        {name: found.branches[name].rank for name in found.found_by if name in found.branches}
        if found
        else {}
    )


def found_by(branch: str, answer: Answer) -> int:
    return next((line.n_out or 0 for line in answer.stages if line.stage == f"{Stage.SEARCH}.{branch}"), 0)


def best_cosine(answer: Answer) -> float:
    """The best cosine among the hits.  Where no word matches, vectors alone rank, and it is the best of the branch."""
    scores = [hit.branches[DENSE].score or 0.0 for hit in answer.hits if DENSE in hit.branches]
    return max(scores, default=0.0)
