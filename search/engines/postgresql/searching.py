"""Searches by words and by vectors, under conditions on the columns of a document and its passage."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from models.documents import Matrix
from models.hits import Hit, Ranking
from search.analysis import question_terms
from search.engines.postgresql.tables import Tables, storable
from search.protocol import Search
from search.ranking_end import COSINE_DECIMALS, LEAST_CANDIDATES, TEXT_DECIMALS, cut, is_settled, with_whole
from search.served_fields import HIT_FIELDS
from search.term_conditions import Conditions

K1, B = 1.2, 0.75
"""BM25's constants, the same as in the embedded store."""
_MOST_CANDIDATES = 1_000
"""Of pgvector's graph."""
_HIT_COLUMNS = ", ".join([*HIT_FIELDS[:2], "{score}", *HIT_FIELDS[2:]])
RARE_SHARE = 0.3
"""The rarest words of a question, up to this share of its postings, are read first."""

# The factors of a term that the question has `times` times.  A plain 0.5 would be of the type numeric, which is ten times slower.
_WEIGHT = f"times * {K1 + 1}::float8 * ln(1 + (e.{{0}} - t.{{0}} + 0.5::float8) / (t.{{0}} + 0.5::float8))"
_GROWTH = f"{K1 * B}::float8 * e.{{0}} / greatest(1, e.{{1}})"
_SCORE = f"sum(weight * count / (count + {K1 * (1 - B)}::float8 + growth * length))"
# A word gives a passage at most its weight.  The rare words give a ranking, whose last passage has the score `least`.  If the frequent
# words together weigh less than `least`, each of the best passages has a rare word.  The frequent words are then looked up only for
# passages that may still be among the best (MaxScore: Turtle and Flood, Information Processing & Management 31(6), 1995).  Otherwise
# every posting is read.  The ranking is cut with ties, so that the ids of equal passages decide their order wherever it is cut.
# The words are looked up in a document's terms by bisection (`width_bucket`), once each (OFFSET 0).
_TEXT = f"""
    WITH {{allowed}} question AS MATERIALIZED (
        SELECT term, {_WEIGHT.format("passages")} AS weight, {_GROWTH.format("passages", "passage_words")} AS growth,
            {_WEIGHT.format("documents")} AS whole_weight, {_GROWTH.format("documents", "document_words")} AS whole_growth,
            sum(t.passages) OVER (ORDER BY t.passages, term) <= {{rare_share}} * sum(t.passages) OVER () AS is_rare
        FROM unnest({{words}}::text[], {{times}}::float8[]) AS question(word, times)
        JOIN {{terms}} AS t USING (word) JOIN chorale_engine AS e ON e.id = {{id}}
    ), rare AS MATERIALIZED (
        SELECT rid, {_SCORE} AS score FROM question JOIN {{postings}} USING (term) WHERE is_rare {{allowing}} GROUP BY rid
    ), bound AS MATERIALIZED (
        SELECT least, most FROM (SELECT sum(weight) AS most FROM question WHERE NOT is_rare) AS frequent,
            (SELECT score - 2e-{TEXT_DECIMALS} AS least FROM rare ORDER BY score DESC OFFSET greatest(0, {{limit}} - 1) LIMIT 1) AS last
        WHERE most < least
    ), unrounded AS (
        SELECT rid, rare.score + coalesce((
            SELECT {_SCORE} FROM question JOIN {{postings}} AS p USING (term) WHERE NOT is_rare AND p.rid = rare.rid
        ), 0) AS score FROM rare, bound WHERE rare.score + most >= least
        UNION ALL
        SELECT rid, {_SCORE} FROM question JOIN {{postings}} USING (term)
        WHERE NOT EXISTS (SELECT FROM bound) {{allowing}} GROUP BY rid
    ), best AS MATERIALIZED (
        SELECT rid, score, did, passage_id FROM (
            SELECT rid, round(score * 1e{TEXT_DECIMALS}) / 1e{TEXT_DECIMALS} AS score FROM unrounded
            ORDER BY score DESC FETCH FIRST {{limit}} ROWS WITH TIES
        ) AS first JOIN {{passages}} USING (rid)
    ), whole AS (
        SELECT did, (
            SELECT {_SCORE} FROM (
                SELECT whole_weight AS weight, whole_growth AS growth, counts[place] AS count, length
                FROM (SELECT *, width_bucket(term, terms) AS place FROM question OFFSET 0) AS looked_up WHERE terms[place] = term
            ) AS counted
        ) AS whole FROM (SELECT DISTINCT did FROM best) AS found JOIN {{documents}} USING (did)
    )
    SELECT {_HIT_COLUMNS.format(score="score")}, coalesce(whole, 0)
    FROM best JOIN {{documents}} USING (did) LEFT JOIN whole USING (did)
"""
_ALLOWED = "allowed AS (SELECT rid FROM {passages} JOIN {documents} USING (did) WHERE {condition}),"
_COSINE = f"round(-distance * 1e{COSINE_DECIMALS}) / 1e{COSINE_DECIMALS} + 0"
_VECTORS = f"""
    SELECT {_HIT_COLUMNS.format(score=_COSINE)} FROM (
        SELECT did, passage_id, embedding <#> {{vector}}::vector AS distance FROM {{passages}}
        WHERE embedding IS NOT NULL {{where}} ORDER BY (embedding <#> {{vector}}::vector) {{exactly}} LIMIT {{limit}}
    ) AS nearest JOIN {{documents}} USING (did)
"""
_WHERE = "AND did IN (SELECT did FROM {documents} WHERE {condition})"
_HAS_LIKE = "EXISTS (SELECT FROM unnest(parts) p WHERE starts_with(p, {}) AND strpos(substr(p, {}), {}) > 0)"
_GRAPH_OPTIONS = "SET LOCAL hnsw.ef_search = {candidates}; SET LOCAL hnsw.iterative_scan = strict_order"

CONDITIONS = Conditions[sql.Composed](
    longest_part=1_000,
    has_id=lambda ids: sql.SQL("document_id = ANY({})").format([*map(storable, ids)]),
    has_any=lambda terms: sql.SQL("facets && {}::text[]").format([*map(storable, terms)]),
    has_like=lambda first, part: sql.SQL(_HAS_LIKE).format(storable(first), len(first) + 1, storable(part)),
    every=lambda conditions: sql.SQL("({})").format(sql.SQL(" AND ").join(conditions)),
    some=lambda conditions: sql.SQL("({})").format(sql.SQL(" OR ").join(conditions)),
    negated=lambda condition: sql.SQL("NOT {}").format(condition),
)


def by_text(tables: Tables, texts: Sequence[str], search: Search) -> list[Ranking]:
    condition, warnings = _condition(tables, search)
    depth = max(search.depth, LEAST_CANDIDATES)

    def ranking(text: str, limit: int = 2 * depth) -> Ranking:
        hits, whole = _scored(tables, text, condition, limit)
        is_all = len(hits) < limit
        if not is_all and len(whole) < depth:
            return ranking(text, 4 * limit)
        candidates = with_whole(cut(hits, depth), whole)
        return Ranking(cut(candidates, search.depth), len(whole) if is_all else None)

    return [Ranking((), None, warnings) if warnings else ranking(text) for text in texts]


def scores(
    tables: Tables, texts: Sequence[str], passage_ids: Sequence[Sequence[str]]
) -> list[dict[str, float]]:
    """For each text the scores of its passages that have one of its words."""
    answers = []
    for text, ids in zip(texts, passage_ids, strict=True):
        among = sql.SQL("passage_id = ANY({})").format(list(ids))
        hits = with_whole(*_scored(tables, text, among, len(ids)))
        answers.append({hit.passage_id: hit.score for hit in hits})
    return answers


def by_vectors(tables: Tables, vectors: Matrix, search: Search) -> list[Ranking]:
    """Exact in an index without a graph, and wherever the graph returns too few hits."""
    condition, warnings = _condition(tables, search)
    where = sql.SQL("") if condition is None else tables.sql(_WHERE, condition=condition)

    def ranking(vector: str, limit: int = 2 * search.depth, is_exact: bool = not tables.has_graph) -> Ranking:
        if not is_exact:
            tables.execute(_GRAPH_OPTIONS, candidates=min(_MOST_CANDIDATES, max(tables.candidates, limit)))
        exactly = sql.SQL("+ 0" if is_exact else "")  # another expression than the graph's
        rows = tables.execute(_VECTORS, vector=vector, where=where, exactly=exactly, limit=limit)
        hits = [Hit(*row) for row in rows]
        is_short = len(hits) < limit
        if (is_short and is_exact) or is_settled(hits, search.depth):
            return Ranking(cut(hits, search.depth), None, known_words=tables.manifest.known_words)
        return ranking(vector, 4 * limit, is_exact or is_short)

    return [Ranking((), None, warnings) if warnings else ranking(str(row)) for row in vectors.tolist()]


def _condition(tables: Tables, search: Search) -> tuple[sql.Composed | None, tuple[str, ...]]:
    """The condition on each hit, and warnings: with any of these there are no hits."""
    conditions, exists = CONDITIONS.for_search(search), "EXISTS (SELECT FROM {documents} WHERE {has})"
    columns = [tables.sql(exists, has=CONDITIONS.has_field(field)) for field in conditions.fields]
    [known] = tables.execute("SELECT {columns}", columns=sql.SQL(", ").join(columns)) if columns else [()]
    condition = CONDITIONS.every([*conditions.parts]) if conditions.parts else None
    return condition, conditions.warnings(known)


def _scored(
    tables: Tables, text: str, condition: sql.Composed | None, limit: int
) -> tuple[list[Hit], dict[str, float]]:
    """The best passages, with all that are as good as the last one, and the scores of their documents."""
    terms = question_terms(text, tables.manifest.language)
    rows = tables.execute(
        _TEXT,
        allowed=sql.SQL("") if condition is None else tables.sql(_ALLOWED, condition=condition),
        allowing=sql.SQL("") if condition is None else sql.SQL("AND rid IN (SELECT rid FROM allowed)"),
        words=list(terms),
        times=[float(times) for times in terms.values()],
        rare_share=RARE_SHARE,
        limit=limit,
    ).fetchall()
    return [Hit(*row) for *row, _ in rows], {row[1]: row[-1] for row in rows}
