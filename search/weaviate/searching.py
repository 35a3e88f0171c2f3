"""Searching: near-vector, BM25 and hybrid.  Sends one call for each question, all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from weaviate.classes.query import Filter, HybridFusion, MetadataQuery
from weaviate.collections.classes.filters import FilterReturn

from models.documents import Matrix
from models.hits import Hit, Ranking
from search.analysis import question_terms
from search.checks import checked_questions
from search.filters import unknown_field_warning
from search.protocol import Search
from search.weaviate import filter_conditions as conditions
from search.weaviate.document_objects import document_uuid
from search.weaviate.filter_conditions import AnyTerm, Condition, Every, Like, Not, Some
from search.weaviate.filter_terms import has_field
from search.weaviate.namespace_records import Namespace
from search.weaviate.ranking_depth import best
from search.weaviate.schema import Objects

SHOWN = [*Hit._fields]
SHOWN.remove("score")

# float32 sums: further decimals depend on the order of summing.
_COSINE_DECIMALS = 6
_SCORE_DECIMALS = 5

_FUSIONS = {"relative": HybridFusion.RELATIVE_SCORE, "ranked": HybridFusion.RANKED}


@dataclass(frozen=True, slots=True)
class Fusion:
    alpha: float
    """Weight of the vectors."""
    kind: Literal["relative", "ranked"]
    least_hits: int
    """The argument of the same name of `by_text`."""


async def by_text(
    namespace: Namespace, held: Objects, search: Search, texts: Sequence[str], least_hits: int
) -> list[Ranking]:
    """Asks for at least `least_hits` passages (see `search.weaviate.wand_pruning`)."""

    def asked(text: str) -> _Ask | None:
        query = _terms(text, namespace.manifest.language)

        async def found(where: FilterReturn, limit: int) -> list[Hit]:
            answer = await held.query.bm25(
                query,
                query_properties=["terms"],
                limit=limit,
                filters=where,
                return_properties=SHOWN,
                return_metadata=MetadataQuery(score=True),
            )
            return [_scored(one) for one in answer.objects]

        return found if query else None

    return await _rankings(held, search, [asked(text) for text in texts], least_hits)


async def by_vector(namespace: Namespace, held: Objects, search: Search, vectors: Matrix) -> list[Ranking]:
    questions = checked_questions(namespace.name, vectors, namespace.manifest.dimension)

    def asked(vector: list[float]) -> _Ask:
        async def found(where: FilterReturn, limit: int) -> list[Hit]:
            answer = await held.query.near_vector(
                vector,
                limit=limit,
                filters=where,
                return_properties=SHOWN,
                return_metadata=MetadataQuery(distance=True),
            )
            return [
                hit_of(one.properties, round(1.0 - (one.metadata.distance or 0.0), _COSINE_DECIMALS))
                for one in answer.objects
            ]

        return found

    return await _rankings(held, search, [asked(vector) for vector in questions.tolist()])


async def by_both(
    namespace: Namespace,
    held: Objects,
    search: Search,
    how: Fusion,
    texts: Sequence[str],
    vectors: Matrix,
) -> list[Ranking]:
    questions = checked_questions(namespace.name, vectors, namespace.manifest.dimension)

    def asked(text: str, vector: list[float]) -> _Ask:
        query = _terms(text, namespace.manifest.language)

        async def found(where: FilterReturn, limit: int) -> list[Hit]:
            answer = await held.query.hybrid(
                query or None,
                vector=vector,
                # Without a term there is nothing to fuse.
                alpha=how.alpha if query else 1.0,
                query_properties=["terms"],
                fusion_type=_FUSIONS[how.kind],
                limit=limit,
                filters=where,
                return_properties=SHOWN,
                return_metadata=MetadataQuery(score=True),
            )
            return [_scored(one) for one in answer.objects]

        return found

    pairs = zip(texts, questions.tolist(), strict=True)
    return await _rankings(held, search, [asked(text, vector) for text, vector in pairs], how.least_hits)


_Ask = Callable[[FilterReturn, int], Awaitable[list[Hit]]]
"""Returns at most this many passages that pass the filter, best first."""


async def _rankings(
    held: Objects, search: Search, questions: Sequence[_Ask | None], least_hits: int = 0
) -> list[Ranking]:
    """A ranking for each question; an empty one for None."""
    where, warnings = await passing(held, search)
    if warnings:
        return [Ranking((), 0, warnings) for _ in questions]

    async def ranking(ask: _Ask | None) -> Ranking:
        if ask is None:
            return Ranking((), 0)
        return Ranking(*await best(partial(ask, where), search.depth, least_hits=least_hits))

    return list(await asyncio.gather(*map(ranking, questions)))


async def passing(held: Objects, search: Search) -> tuple[FilterReturn, tuple[str, ...]]:
    """The filter for passages, and warnings; with any warning nothing matches."""
    # A filter that everything passes makes Weaviate compare every vector of a small namespace.
    wanted: Condition = conditions.EVERYTHING
    if search.filters:
        warnings = conditions.warnings(search.filters)
        warnings += await _unknown(held, list(search.filters))
        if warnings:
            return filter_of(conditions.NOTHING), warnings
        wanted = conditions.condition(search.filters)
    where = filter_of(wanted)
    if search.exclude_ids:
        excluded = [document_uuid(name) for name in search.exclude_ids]
        where = where & Filter.not_(Filter.by_property("document").contains_any(excluded))
    return where, ()


async def _unknown(held: Objects, fields: Sequence[str]) -> tuple[str, ...]:
    async def is_known(field: str) -> bool:
        having = filter_of(AnyTerm((has_field(field),)))
        return bool((await held.query.fetch_objects(filters=having, limit=1, return_properties=[])).objects)

    known = await asyncio.gather(*map(is_known, fields))
    return tuple(unknown_field_warning(field) for field, has in zip(fields, known, strict=True) if not has)


def filter_of(condition: Condition) -> FilterReturn:
    """The condition as Weaviate's filter."""
    facets = Filter.by_property("facets")
    match condition:
        case AnyTerm(()):
            return Filter.not_(filter_of(conditions.EVERYTHING))
        case AnyTerm(terms):
            return facets.contains_any(list(terms))
        case Like(pattern):
            return facets.like(pattern)
        case Not(inner):
            return Filter.not_(filter_of(inner))
        case Every(()):
            return filter_of(conditions.EVERYTHING)
        case Every(inner_conditions):
            return Filter.all_of([filter_of(inner) for inner in inner_conditions])
        case Some(()):
            return filter_of(conditions.NOTHING)
        case Some(inner_conditions):
            return Filter.any_of([filter_of(inner) for inner in inner_conditions])


def _terms(text: str, language: str) -> str:
    """The question's terms, each repeated as often as it occurs, because Weaviate counts them."""
    terms = question_terms(text, language)
    return " ".join(term for term, count in terms.items() for _ in range(count))


def _scored(found: Any) -> Hit:
    return hit_of(found.properties, round(found.metadata.score or 0.0, _SCORE_DECIMALS))


def hit_of(properties: Mapping[str, Any], score: float) -> Hit:
    shown: dict[str, Any] = {name: properties.get(name) for name in SHOWN}
    return Hit(score=score, **shown)
