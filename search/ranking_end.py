"""The end of a ranking of a server's hits: the passage that brings the `depth`-th different document."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from chorale_client.wire_names import Warned

from models.hits import Hit

WHOLE_WEIGHT = 1 / 3
"""The weight of the whole document's BM25 score in a passage's score by text; the passage's own BM25 score has the rest.  A document
of one passage keeps the score of BM25."""
LEAST_CANDIDATES = 100
"""At least this many documents, those with the best passages, are candidates of a ranking by text, so that a shallow one
begins like a deep one."""
TEXT_DECIMALS, COSINE_DECIMALS = 5, 6
"""The decimals of scores by text and by vectors.  Further ones depend on the order of summing float32, and on the run of the model."""


def cut(hits: Collection[Hit], depth: int) -> tuple[Hit, ...]:
    """The hits of the best `depth` documents, best first; equal scores are ordered by passage id."""
    ordered = sorted(hits, key=lambda hit: (-hit.score, hit.passage_id))
    seen: set[str] = set()
    for size, hit in enumerate(ordered, start=1):
        seen.add(hit.document_id)
        if len(seen) == depth:
            return tuple(ordered[:size])
    return tuple(ordered)


def is_settled(hits: Sequence[Hit], depth: int) -> bool:
    """Whether every passage that was not fetched, which scores no higher than the worst hit, comes after the end."""
    ranking = cut(hits, depth)
    return count_documents(ranking) == depth and ranking[-1].score > min(hit.score for hit in hits)


def with_whole(hits: Iterable[Hit], whole: Mapping[str, float]) -> list[Hit]:
    """The hits, scored with their whole documents; `whole` has the scores of documents by id."""
    return [
        hit._replace(score=round(hit.score + WHOLE_WEIGHT * (document_score - hit.score), TEXT_DECIMALS))
        for hit in hits
        for document_score in (whole.get(hit.document_id, 0.0),)
    ]


def cut_warnings(hits: Collection[Hit], depth: int, most: int) -> tuple[str, ...]:
    """A warning for a server's `most` passages, if they have fewer than `depth` documents."""
    if len(hits) < most or (count := count_documents(hits)) >= depth:
        return ()
    warning = f"{count:,} documents instead of {depth:,}: the store returns at most {most:,} passages"
    return (f"{Warned.DEPTH}: {warning}",)


def count_documents(hits: Collection[Hit]) -> int:
    return len({hit.document_id for hit in hits})
