"""Searching: rankings of at least `depth` documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from models.documents import Matrix
from models.hits import Hit, Ranking
from search.analysis import question_terms
from search.engines.postgresql.connection import Session
from search.engines.postgresql.filter_conditions import CONDITIONS, Condition, conditions, every
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

K1, B = 1.2, 0.75
"""BM25's constants, the same as in the embedded store."""
_MOST_CANDIDATES = 1_000
"""Of pgvector's graph."""
_SHOWN = "passage_id, document_id, {score}, source_type, published_at, content_hash, near_duplicate_group"

RARE_SHARE = 0.3
"""The rarest words of a question, up to this share of its postings, are read first."""

# A word gives a passage at most its weight.  The rare words give a ranking, whose last passage has the score `least`.  If the frequent
# words together weigh less than `least`, each of the best passages has a rare word.  The frequent words are then looked up only for
# passages that may still be among the best (MaxScore: Turtle and Flood, Information Processing & Management 31(6), 1995).  Otherwise
# every posting is read.  The ranking is cut with ties, so that the ids of equal passages decide their order wherever it is cut.
_TEXT = f"""
    WITH {{allowed}} question AS MATERIALIZED (
        SELECT term, {{of_passage}} AS weight, {{of_document}} AS whole_weight,
            sum(passages) OVER (ORDER BY passages, term) <= {{rare_share}} * sum(passages) OVER () AS is_rare
        FROM unnest(%s::text[], %s::float8[]) AS question(word, times) JOIN {{terms}} USING (word)
    ), rare AS MATERIALIZED (
        SELECT rid, {{score}} AS score FROM question JOIN {{postings}} USING (term) WHERE is_rare {{allowing}} GROUP BY rid
    ), bound AS MATERIALIZED (
        SELECT least, most FROM (SELECT sum(weight) AS most FROM question WHERE NOT is_rare) AS frequent,
            (SELECT score - 2e-{TEXT_DECIMALS} AS least FROM rare ORDER BY score DESC OFFSET %s LIMIT 1) AS last
        WHERE most < least
    ), unrounded AS (
        SELECT rid, rare.score + coalesce((
            SELECT {{score}} FROM question JOIN {{postings}} AS p USING (term) WHERE NOT is_rare AND p.rid = rare.rid
        ), 0) AS score FROM rare, bound WHERE rare.score + most >= least
        UNION ALL
        SELECT rid, {{score}} FROM question JOIN {{postings}} USING (term)
        WHERE NOT EXISTS (SELECT FROM bound) {{allowing}} GROUP BY rid
    ), scored AS (
        SELECT rid, round(score * 1e{TEXT_DECIMALS}) / 1e{TEXT_DECIMALS} AS score FROM unrounded
    ), best AS MATERIALIZED (
        SELECT rid, score, did, passage_id FROM (
            SELECT * FROM scored ORDER BY score DESC FETCH FIRST %s ROWS WITH TIES
        ) AS first JOIN {{passages}} USING (rid)
    ), whole AS (
        SELECT did, {{whole_score}} AS whole
        FROM (SELECT DISTINCT did FROM best) AS found JOIN {{documents}} USING (did), unnest(terms, counts) AS u(term, count)
            JOIN (SELECT term, whole_weight AS weight FROM question) AS q USING (term)
        GROUP BY did
    )
    SELECT {_SHOWN.format(score="score")}, coalesce(whole, 0)
    FROM best JOIN {{documents}} USING (did) LEFT JOIN whole USING (did)
"""
_ALLOWED = "allowed AS (SELECT rid FROM {{passages}} JOIN {{documents}} USING (did) WHERE {}),"
_COSINE = f"round(-distance * 1e{COSINE_DECIMALS}) / 1e{COSINE_DECIMALS} + 0"
_VECTORS = f"""
    SELECT {_SHOWN.format(score=_COSINE)} FROM (
        SELECT did, passage_id, embedding <#> %s::vector AS distance FROM {{passages}}
        WHERE embedding IS NOT NULL {{where}} ORDER BY (embedding <#> %s::vector) {{exactly}} LIMIT %s
    ) AS nearest JOIN {{documents}} USING (did)
"""
_GRAPH_OPTIONS = "SET LOCAL hnsw.ef_search = {}; SET LOCAL hnsw.iterative_scan = strict_order"


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
            hits, whole = _scored(searched, text, allowed, limit)
            is_all = len(hits) < limit
            if is_all or count_documents(hits) >= depth:
                candidates = with_whole(cut(hits, depth), whole)
                return Ranking(cut(candidates, search.depth), count_documents(hits) if is_all else None)
            limit *= 4

    return _ranked(searched, texts, search, rank)


def scores(
    searched: Searched, texts: Sequence[str], passage_ids: Sequence[Sequence[str]]
) -> list[dict[str, float]]:
    """For each text the scores of its passages that have one of its words."""
    answers = []
    for text, ids in zip(texts, passage_ids, strict=True):
        found = _scored(searched, text, Condition("passage_id = ANY(%s)", (list(ids),)), len(ids))
        answers.append({hit.passage_id: hit.score for hit in with_whole(*found)})
    return answers


def by_vectors(searched: Searched, vectors: Matrix, search: Search) -> list[Ranking]:
    """Exact in an index without a graph, and wherever the graph returns too few hits."""
    known_words = searched.index.manifest.known_words

    def rank(vector: Any, allowed: Condition | None) -> Ranking:
        limit, is_exact = 2 * search.depth, not searched.tables.has_graph
        while True:
            hits = _near(searched, str(vector.tolist()), allowed, limit, is_exact=is_exact)
            is_short = len(hits) < limit
            if (is_short and is_exact) or is_settled(hits, search.depth):
                return Ranking(cut(hits, search.depth), None, known_words=known_words)
            is_exact, limit = is_exact or is_short, 4 * limit

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
        columns = ", ".join(f"EXISTS (SELECT FROM {{documents}} WHERE {one.sql})" for one in knows)
        values = [value for one in knows for value in one.values]
        [row] = searched.session.execute(searched.tables.sql(f"SELECT {columns}"), values).fetchall()
        known = zip(fields, row, strict=True)
        warnings = tuple(unknown_field_warning(field) for field, is_known in known if not is_known)
    if warnings:
        return [Ranking((), None, warnings) for _ in questions]
    allowed = every(found) if found else None
    return [rank(question, allowed) for question in questions]


def _scored(
    searched: Searched, text: str, allowed: Condition | None, limit: int
) -> tuple[list[Hit], dict[str, float]]:
    """The best passages, with all that are as good as the last one, and the scores of their documents."""
    terms = question_terms(text, searched.index.manifest.language)
    tables = searched.tables
    statement = tables.sql(
        _TEXT,
        rare_share=str(RARE_SHARE),
        allowed=_ALLOWED.format(allowed.sql) if allowed else "",
        allowing="AND rid IN (SELECT rid FROM allowed)" if allowed else "",
        of_passage=_weight("passages", tables.passages),
        of_document=_weight("documents", tables.documents),
        score=_score(tables.passage_words, tables.passages),
        whole_score=_score(tables.document_words, tables.documents),
    )
    counts = [float(count) for count in terms.values()]
    values = (*(allowed.values if allowed else ()), list(terms), counts, max(0, limit - 1), limit)
    rows = searched.session.execute(statement, values).fetchall()
    hits = [Hit(*row) for *row, _ in rows]
    return hits, {hit.document_id: row[-1] for hit, row in zip(hits, rows, strict=True)}


def _weight(documents: str, total: int) -> str:
    """The weight of a term that the question has `times` times, and that is in `documents` of `total`."""
    # A plain 0.5 would be of the type numeric, which is ten times slower.
    return f"times * {K1 + 1}::float8 * ln(1 + ({total} - {documents} + 0.5::float8) / ({documents} + 0.5::float8))"


def _score(words: int, total: int) -> str:
    """The sum for each passage or document, of which `total` have so many words."""
    fixed, growing = K1 * (1 - B), K1 * B * total / max(1, words)
    return f"sum(weight * count / (count + {fixed!r}::float8 + {growing!r}::float8 * length))"


def _near(
    searched: Searched, vector: str, allowed: Condition | None, limit: int, *, is_exact: bool
) -> list[Hit]:
    if not is_exact:
        candidates = min(_MOST_CANDIDATES, max(searched.candidates, limit))
        searched.session.execute(_GRAPH_OPTIONS.format(candidates).encode())
    statement = searched.tables.sql(
        _VECTORS,
        where="AND did IN (SELECT did FROM {documents} WHERE {allowed})" if allowed else "",
        allowed=allowed.sql if allowed else "",
        exactly="+ 0" if is_exact else "",  # another expression than the graph's
    )
    values = (vector, *(allowed.values if allowed else ()), vector, limit)
    return [Hit(*row) for row in searched.session.execute(statement, values)]
