"""Searching: rankings of at least `depth` documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from models.documents import Matrix
from models.hits import Hit, Ranking
from search.analysis import question_terms
from search.engines.postgresql.connection import Session
from search.engines.postgresql.filter_conditions import CONDITIONS, Condition, conditions, every
from search.engines.postgresql.scoring import score, weight
from search.engines.postgresql.tables import Tables
from search.filters import unknown_field_warning
from search.protocol import Index, Search
from search.ranking_end import (
    COSINE_DECIMALS,
    LEAST_CANDIDATES,
    TEXT_DECIMALS,
    count_documents,
    cut,
    is_settled,
    with_whole,
)

_MOST_CANDIDATES = 1_000
"""Of pgvector's graph."""
_SHOWN = "passage_id, document_id, {}, source_type, published_at, content_hash, near_duplicate_group"
_OF_PASSAGES = "{passages} JOIN {documents} USING (did)"

# With ties, so that equal passages are ordered by their ids wherever the ranking is cut.
_TEXT = """
    WITH question AS MATERIALIZED (
        SELECT term, {of_passage} AS weight, {of_document} AS whole_weight
        FROM unnest(%s::text[], %s::float8[]) AS question(word, asked) JOIN {terms} USING (word)
    ), scored AS (
        SELECT rid, round({score} * 1e{decimals}) / 1e{decimals} AS score FROM question JOIN {postings} USING (term) {where} GROUP BY rid
    ), best AS MATERIALIZED (
        SELECT rid, score, did, passage_id FROM (
            SELECT * FROM scored ORDER BY score DESC FETCH FIRST %s ROWS WITH TIES
        ) AS first JOIN {passages} USING (rid)
    ), whole AS (
        SELECT did, {whole_score} AS whole
        FROM (SELECT DISTINCT did FROM best) AS found JOIN {documents} USING (did),
            unnest(terms, counts) AS u(term, count) JOIN (SELECT term, whole_weight AS weight FROM question) AS q USING (term)
        GROUP BY did
    )
    SELECT {shown}, coalesce(whole, 0) FROM best JOIN {documents} USING (did) LEFT JOIN whole USING (did)
"""
_VECTORS = """
    SELECT {shown} FROM (
        SELECT did, passage_id, embedding <#> %s::vector AS distance FROM {passages}
        WHERE embedding IS NOT NULL {where} ORDER BY (embedding <#> %s::vector) {exactly} LIMIT %s
    ) AS nearest JOIN {documents} USING (did)
"""


@dataclass(frozen=True, slots=True)
class Searched:
    """An index during one search."""

    session: Session
    tables: Tables
    index: Index
    candidates: int
    """The graph's, of each search by vectors."""


def by_text(searched: Searched, texts: Sequence[str], search: Search) -> list[Ranking]:
    depth = max(search.depth, LEAST_CANDIDATES)

    def rank(text: str, allowed: Condition | None) -> Ranking:
        limit = 2 * depth
        while True:
            found = _scored(searched, text, allowed, limit)
            hits = [hit for hit, _ in found]
            is_all = len(hits) < limit
            if is_all or count_documents(hits) >= depth:
                break
            limit *= 4
        candidates = with_whole(cut(hits, depth), {hit.document_id: whole for hit, whole in found})
        return Ranking(cut(candidates, search.depth), count_documents(hits) if is_all else None)

    return _ranked(searched, texts, search, rank)


def scores(
    searched: Searched, texts: Sequence[str], passage_ids: Sequence[Sequence[str]]
) -> list[dict[str, float]]:
    """For each text the scores of its passages that have one of its words."""
    answers = []
    for text, ids in zip(texts, passage_ids, strict=True):
        found = _scored(searched, text, Condition("passage_id = ANY(%s)", (list(ids),)), len(ids))
        hits = with_whole([hit for hit, _ in found], {hit.document_id: whole for hit, whole in found})
        answers.append({hit.passage_id: hit.score for hit in hits})
    return answers


def by_vectors(searched: Searched, vectors: Matrix, search: Search) -> list[Ranking]:
    """Exact in an index without a graph, and wherever the graph returns too few hits."""
    known_words = searched.index.manifest.known_words

    def rank(vector: Any, allowed: Condition | None) -> Ranking:
        limit, is_exact = 2 * search.depth, not searched.tables.has_graph
        while True:
            hits = _near(searched, str(vector.tolist()), allowed, limit, is_exact=is_exact)
            if (len(hits) < limit and is_exact) or is_settled(hits, search.depth):
                break
            is_exact, limit = is_exact or len(hits) < limit, 4 * limit
        return Ranking(cut(hits, search.depth), None, known_words=known_words)

    return _ranked(searched, vectors, search, rank)


def _ranked(
    searched: Searched,
    questions: Sequence[Any] | Matrix,
    search: Search,
    rank: Callable[[Any, Condition | None], Ranking],
) -> list[Ranking]:
    """No hits, and warnings, if a condition is invalid or names an unknown field."""
    found, fields, warnings = conditions(search)
    if fields and not warnings:
        knows = [CONDITIONS.has_field(field) for field in fields]
        asked = ", ".join(f"EXISTS (SELECT FROM {{documents}} WHERE {one.sql})" for one in knows)
        values = [value for one in knows for value in one.values]
        row: Any = searched.session.execute(searched.tables.sql(f"SELECT {asked}"), values).fetchone()
        warnings = tuple(
            unknown_field_warning(field) for field, is_known in zip(fields, row, strict=True) if not is_known
        )
    if warnings:
        return [Ranking((), None, warnings) for _ in questions]
    allowed = every(found) if found else None
    return [rank(question, allowed) for question in questions]


def _scored(searched: Searched, text: str, allowed: Condition | None, limit: int) -> list[tuple[Hit, float]]:
    """The best passages, those with equal scores at the end too, each with the score of its whole document."""
    terms = question_terms(text, searched.index.manifest.language)
    tables = searched.tables
    where, values = "", ()
    if allowed is not None:
        where, values = f"WHERE rid IN (SELECT rid FROM {_OF_PASSAGES} WHERE {allowed.sql})", allowed.values
    parts = {
        "of_passage": weight("passages", tables.passages),
        "of_document": weight("documents", tables.documents),
        "score": score(tables.passage_words / max(1, tables.passages)),
        "whole_score": score(tables.document_words / max(1, tables.documents)),
        "decimals": str(TEXT_DECIMALS),
        "shown": _SHOWN.format("score"),
    }
    statement = tables.sql(
        _TEXT.replace("{where}", where), **{name: sql.SQL(part) for name, part in parts.items()}
    )
    counts = [float(count) for count in terms.values()]
    rows = searched.session.execute(statement, (list(terms), counts, *values, limit))
    return [(Hit(*row), whole) for *row, whole in rows]


def _near(
    searched: Searched, vector: str, allowed: Condition | None, limit: int, *, is_exact: bool
) -> list[Hit]:
    if not is_exact:
        candidates = min(_MOST_CANDIDATES, max(searched.candidates, limit))
        settings = f"SET LOCAL hnsw.ef_search = {candidates}; SET LOCAL hnsw.iterative_scan = strict_order"
        searched.session.execute(settings.encode())
    where, values = "", ()
    if allowed is not None:
        where, values = f"AND did IN (SELECT did FROM {{documents}} WHERE {allowed.sql})", allowed.values
    shown = _SHOWN.format(f"round(-distance * 1e{COSINE_DECIMALS}) / 1e{COSINE_DECIMALS} + 0")
    statement = searched.tables.sql(
        _VECTORS.replace("{where}", where),
        shown=sql.SQL(shown),
        exactly=sql.SQL("+ 0" if is_exact else ""),  # another expression than the graph's
    )
    return [Hit(*row) for row in searched.session.execute(statement, (vector, *values, vector, limit))]
