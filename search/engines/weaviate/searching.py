"""Searching: near-vector, BM25 and hybrid.  Sends one call for each question, all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from weaviate.classes.query import Filter, HybridFusion, MetadataQuery
from weaviate.collections.classes.filters import FilterReturn

from models.documents import Matrix
from models.hits import Hit, Ranking
from search.analysis import question_terms
from search.checks import checked_questions
from search.engines.weaviate.schema import MOST_RESULTS, Objects, has_id
from search.engines.weaviate.wand_pruning import Pruning
from search.filter_terms import LONGEST_PART
from search.protocol import Index, Search
from search.ranking_end import (
    COSINE_DECIMALS,
    LEAST_CANDIDATES,
    TEXT_DECIMALS,
    count_documents,
    cut,
    cut_warnings,
    is_settled,
    with_whole,
)
from search.served_fields import HIT_FIELDS
from search.term_conditions import Conditions

_SCORE, _DISTANCE = MetadataQuery(score=True), MetadataQuery(distance=True)
_MORE = 16
_FACETS = Filter.by_property("facets")
CONDITIONS = Conditions[FilterReturn](
    longest_part=LONGEST_PART,
    has_id=has_id,
    has_any=lambda terms: _FACETS.contains_any(list(terms)),
    has_like=lambda beginning, part: _FACETS.like(f"{beginning}*{part}*"),
    every=Filter.all_of,
    some=Filter.any_of,
    negated=Filter.not_,
)
_FUSIONS = {"relative": HybridFusion.RELATIVE_SCORE, "ranked": HybridFusion.RANKED}


async def by_text(
    index: Index, passages: Objects, search: Search, texts: Sequence[str], pruning: Pruning
) -> list[Ranking]:
    """Asks for passages, and then for their documents' scores."""
    queries = [_terms(text, index.manifest.language) for text in texts]
    requests = [
        partial(passages.query.bm25, query, query_properties=["terms"], return_metadata=_SCORE)
        if query
        else None
        for query in queries
    ]
    wide = replace(search, depth=max(search.depth, LEAST_CANDIDATES))

    async def scored(query: str, candidates: Ranking) -> Ranking:
        if not candidates.hits:
            return candidates
        ids = {hit.document_id for hit in candidates.hits}
        answer = await passages.query.bm25(
            query,
            query_properties=["whole"],
            filters=has_id(ids),
            limit=len(ids) + 1,
            return_metadata=_SCORE,
            return_properties=["document_id"],
        )
        whole = {
            document.properties["document_id"]: document.metadata.score or 0.0 for document in answer.objects
        }
        return replace(candidates, hits=cut(with_whole(candidates.hits, whole), search.depth))

    candidates = await _rankings(passages, wide, requests, await pruning.least_hits(index))
    return list(await asyncio.gather(*map(scored, queries, candidates)))


async def by_vector(index: Index, passages: Objects, search: Search, vectors: Matrix) -> list[Ranking]:
    questions = checked_questions(index.namespace, vectors, index.manifest, search.embedders)
    requests = [
        partial(passages.query.near_vector, vector, return_metadata=_DISTANCE)
        for vector in questions.tolist()
    ]
    figure = index.manifest.known_words
    return [replace(one, known_words=figure) for one in await _rankings(passages, search, requests)]


async def by_both(
    index: Index,
    passages: Objects,
    search: Search,
    texts: Sequence[str],
    vectors: Matrix,
    pruning: Pruning,
    alpha: float,
    fusion: str,
) -> list[Ranking]:
    """`alpha` is the weight of the vectors, `fusion` a key of `_FUSIONS`."""
    questions = checked_questions(index.namespace, vectors, index.manifest, search.embedders)
    queries = [_terms(text, index.manifest.language) for text in texts]
    requests = [
        partial(
            passages.query.hybrid,
            query or None,
            vector=vector,
            # Without a term there is nothing to fuse.
            alpha=alpha if query else 1.0,
            query_properties=["terms"],
            fusion_type=_FUSIONS[fusion],
            return_metadata=_SCORE,
        )
        for query, vector in zip(queries, questions.tolist(), strict=True)
    ]
    return await _rankings(passages, search, requests, await pruning.least_hits(index))


_Query = Callable[..., Awaitable[Any]]
"""A query of the client; receives `limit`, `filters` and `return_properties`."""


async def _rankings(
    passages: Objects, search: Search, questions: Sequence[_Query | None], least_hits: int = 0
) -> list[Ranking]:
    """A ranking for each question; an empty one for None."""
    where, warnings = await matching(passages, search)
    if warnings:
        return [Ranking((), 0, warnings) for _ in questions]

    async def ranking(query: _Query | None) -> Ranking:
        if query is None:
            return Ranking((), 0)

        async def best(limit: int) -> list[Hit]:
            answer = await query(limit=limit, filters=where, return_properties=HIT_FIELDS)
            return [_hit(stored) for stored in answer.objects]

        return Ranking(*await _best(best, search.depth, least_hits))

    return list(await asyncio.gather(*map(ranking, questions)))


async def _best(
    search: Callable[[int], Awaitable[list[Hit]]], depth: int, least_hits: int
) -> tuple[tuple[Hit, ...], int | None, tuple[str, ...]]:
    """The hits of the best `depth` documents, the number of all matching documents if it became known, and warnings.

    `search` is asked for more and more passages, at first at least `least_hits`, until no missing passage could
    belong to the ranking; a ranking of more than MOST_RESULTS passages is cut there.
    """
    limit = min(max(2 * depth + _MORE, least_hits), MOST_RESULTS)
    while True:
        hits = await search(limit)
        is_all = len(hits) < limit
        if is_all or limit == MOST_RESULTS or is_settled(hits, depth):
            total = count_documents(hits) if is_all else None
            return cut(hits, depth), total, cut_warnings(hits, depth, MOST_RESULTS)
        limit = min(4 * limit, MOST_RESULTS)


async def matching(passages: Objects, search: Search) -> tuple[FilterReturn, tuple[str, ...]]:
    """The filter for passages, and warnings: with any warning nothing matches, whatever the filter."""

    async def is_known(field: str) -> bool:
        having = CONDITIONS.has_field(field)
        return bool(
            (await passages.query.fetch_objects(filters=having, limit=1, return_properties=[])).objects
        )

    conditions = CONDITIONS.for_search(search)
    known = await asyncio.gather(*map(is_known, conditions.fields))
    # A filter that everything passes makes Weaviate compare every vector of a small namespace.
    where = Filter.all_of([*conditions.parts] or [CONDITIONS.everything])
    return where, conditions.warnings(known)


def _terms(text: str, language: str) -> str:
    """The question's terms, each repeated as often as it occurs, because Weaviate counts them."""
    terms = question_terms(text, language)
    return " ".join(term for term, count in terms.items() for _ in range(count))


def _hit(stored: Any) -> Hit:
    distance, score = stored.metadata.distance, stored.metadata.score
    fields = {name: stored.properties.get(name) for name in HIT_FIELDS}
    if distance is not None:
        return Hit(score=round(1.0 - distance, COSINE_DECIMALS), **fields)
    return Hit(score=round(score or 0.0, TEXT_DECIMALS), **fields)
