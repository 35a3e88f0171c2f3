"""Searching: request bodies for `msearch`, hits from its answers, and rankings of at least `depth` documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from models.documents import Matrix
from models.errors import InvalidAnswer
from models.hits import Hit, Ranking
from search.engines.elasticsearch.connection import DialectCall
from search.engines.elasticsearch.dialect import Request, as_lines
from search.engines.elasticsearch.failures import failure
from search.engines.elasticsearch.filter_conditions import CLAUSES, Clause, restricted
from search.engines.elasticsearch.index_layout import WHOLE
from search.protocol import Search
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
from search.server_store import Transient
from search.term_conditions import SearchConditions

MOST_HITS = 10_000
"""`index.max_result_window`, and the maximum number of HNSW candidates."""

_ANSWERED = [
    *(f"responses.hits.{name}" for name in ("total.value", "hits._score", "hits.sort", "hits.fields")),
    *(f"responses._shards.{name}" for name in ("failed", "failures.reason")),
    *("responses.timed_out", "responses.error", "responses.status", "error", "status"),
]
"""The parts of an answer that are sent."""
_ORDER = [{"_score": "desc"}, {"passage_id": "asc"}]

Body = dict[str, Any]


def by_text(call: DialectCall, texts: Sequence[str], search: Search) -> list[Ranking]:
    """Two rounds at most: the second collapses each long document that filled the first to one hit.  One more scores whole
    documents."""
    filters, words, depth = CLAUSES.for_search(search), call.layout.words, max(search.depth, LEAST_CANDIDATES)
    size = min(2 * depth, MOST_HITS)
    queries = {n: query for n, text in enumerate(texts) if (query := words.query(text)) is not None}
    queries = {n: restricted(query, filters.parts) for n, query in queries.items()}
    first = {n: _text_body(query, size) for n, query in queries.items()}
    answers, warnings = first_round(call, first, filters)
    hits = {n: _text_hits(answer) for n, answer in answers.items()}
    whole = {n for n, question_hits in hits.items() if len(question_hits) < size}
    short = [
        n for n, question_hits in hits.items() if n not in whole and count_documents(question_hits) < depth
    ]
    if short:
        collapsed = {n: _text_body(queries[n], depth) | {"collapse": {"field": "document_id"}} for n in short}
        for n, answer in msearch(call, collapsed).items():
            hits[n] = list({*hits[n], *_text_hits(answer)})
    candidates = _with_whole(call, texts, {n: cut(question_hits, depth) for n, question_hits in hits.items()})
    return [
        Ranking(
            cut(candidates.get(n, ()), search.depth),
            count_documents(hits.get(n, ())) if n in whole or n not in hits else None,
            warnings,
        )
        for n in range(len(texts))
    ]


def _with_whole(
    call: DialectCall, texts: Sequence[str], hits: Mapping[int, Sequence[Hit]]
) -> dict[int, list[Hit]]:
    """The hits of each question, scored with their whole documents."""
    bodies = {}
    for n, question_hits in hits.items():
        ids = sorted({hit.document_id for hit in question_hits})
        if ids and (query := call.layout.words.query(texts[n], WHOLE)) is not None:
            among = {"bool": {"must": [query], "filter": [{"terms": {"document_id": ids}}]}}
            bodies[n] = _text_body(among, len(ids))
    whole: dict[int, dict[str, float]] = {
        n: {hit["fields"]["document_id"][0]: hit["sort"][0] for hit in raw_hits(answer)}
        for n, answer in msearch(call, bodies).items()
    }
    return {n: with_whole(question_hits, whole.get(n, {})) for n, question_hits in hits.items()}


def scores(
    call: DialectCall, texts: Sequence[str], passage_ids: Sequence[Sequence[str]]
) -> list[dict[str, float]]:
    """For each text the scores of its passages that have one of its words."""
    bodies = {
        n: _text_body({"bool": {"must": [query], "filter": [{"terms": {"passage_id": list(ids)}}]}}, len(ids))
        for n, (text, ids) in enumerate(zip(texts, passage_ids, strict=True))
        if ids and (query := call.layout.words.query(text)) is not None
    }
    hits = {n: _text_hits(answer) for n, answer in msearch(call, bodies).items()}
    scored = _with_whole(call, texts, hits)
    return [{hit.passage_id: hit.score for hit in scored.get(n, ())} for n in range(len(texts))]


def by_vectors(call: DialectCall, vectors: Matrix, search: Search) -> list[Ranking]:
    """Asks for more passages (up to MOST_HITS) while a missing one could belong to the ranking."""
    filters, depth = CLAUSES.for_search(search), search.depth
    size = min(2 * depth, MOST_HITS)
    bodies = {n: _vector_body(call, vector.tolist(), size, filters) for n, vector in enumerate(vectors)}
    answers, warnings = first_round(call, bodies, filters)
    hits: dict[int, list[Hit]] = {}
    while answers:
        again = {}
        for n, answer in answers.items():
            # The server's score is (1 + cosine) / 2.
            hits[n] = [
                hit_of(hit["fields"], round(2 * hit["_score"] - 1, COSINE_DECIMALS))
                for hit in raw_hits(answer)
            ]
            if size < MOST_HITS and len(hits[n]) >= size and not is_settled(hits[n], depth):
                again[n] = _vector_body(call, vectors[n].tolist(), min(4 * size, MOST_HITS), filters)
        size = min(4 * size, MOST_HITS)
        answers = msearch(call, again) if again else {}
    figure = call.layout.manifest.known_words
    return [
        Ranking(
            cut(hits.get(n, ()), depth),
            None,
            (*warnings, *cut_warnings(hits.get(n, ()), depth, MOST_HITS)),
            known_words=figure,
        )
        for n in range(len(vectors))
    ]


def msearch(call: DialectCall, bodies: Mapping[int, Body]) -> dict[int, dict[str, Any]]:
    """Complete answers only: a timeout or a lost shard is a failure."""
    if not bodies:
        return {}
    milliseconds = f"{max(1, int(call.deadline.check() * 1_000))}ms"
    # The index by name, never the alias: the cached namespace describes this index.
    lines: list[dict[str, Any]] = []
    for body in bodies.values():
        head = {"index": call.layout.index}
        if call.layout.shards > 1 and "knn" not in body.get("query", body):
            head["search_type"] = "dfs_query_then_fetch"
        lines += [head, {**body, "timeout": milliseconds}]

    def checked(answer: Any) -> Any:
        # Checked for each attempt, so that temporary failures are retried, such as a moving shard or an index that a
        # rebuild just removed.
        for one in answer["responses"]:
            _check(call, one)
        return answer["responses"]

    request = Request(
        "POST", "/_msearch", as_lines(lines), {"filter_path": ",".join(_ANSWERED)}, is_lines=True
    )
    answers = call.connection.send(request, call.deadline, checked)
    if len(answers) != len(bodies):
        raise InvalidAnswer(f"{call.server} left questions unanswered")
    return dict(zip(bodies, answers, strict=True))


def first_round(
    call: DialectCall, bodies: Mapping[int, Body], filters: SearchConditions[Clause]
) -> tuple[dict[int, dict[str, Any]], tuple[str, ...]]:
    """The answers and warnings; no answers if a condition is invalid or names an unknown field."""
    knows = {
        -n: {"query": CLAUSES.has_field(field), "size": 0, "track_total_hits": 1}
        for n, field in enumerate(filters.fields, start=1)
    }
    # Ask even without terms, to learn whether the namespace exists and knows the fields.
    answers = msearch(call, {**knows, **bodies} or {0: {"size": 0}})
    warnings = filters.warnings(answers[n]["hits"]["total"]["value"] for n in knows)
    return {} if warnings else {n: answers[n] for n in bodies}, warnings


def _text_body(query: Clause, size: int) -> Body:
    return {**hits_only(HIT_FIELDS), "query": query, "sort": _ORDER, "size": size}


def _vector_body(
    call: DialectCall, vector: list[float], size: int, filters: SearchConditions[Clause]
) -> Body:
    dialect = call.connection.dialect
    candidates = min(MOST_HITS, max(2 * size, dialect.endpoint.candidates))
    nearest = dialect.vector_query(vector, size, candidates, filters.parts)
    return {**hits_only(HIT_FIELDS), **nearest, "size": size}


def hits_only(fields: Sequence[str]) -> Body:
    """The part of a body that asks for these fields of the hits, and for nothing else."""
    return {
        "_source": False,
        "stored_fields": "_none_",
        "docvalue_fields": list(fields),
        "track_total_hits": False,
    }


def _text_hits(answer: Mapping[str, Any]) -> list[Hit]:
    return [hit_of(hit["fields"], round(hit["sort"][0], TEXT_DECIMALS)) for hit in raw_hits(answer)]


def raw_hits(answer: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    # filter_path omits empty parts.
    hits: Sequence[Mapping[str, Any]] = answer.get("hits", {}).get("hits", ())
    return hits


def hit_of(fields: Mapping[str, list[str]], score: float) -> Hit:
    values = {name: fields[name][0] for name in HIT_FIELDS if name in fields}
    return Hit(score=score + 0.0, **values)


def _check(call: DialectCall, answer: Mapping[str, Any]) -> None:
    if "error" in answer:
        raise failure(call.server, int(answer.get("status", 500)), answer)
    if answer.get("timed_out"):
        raise call.deadline.over()
    if lost := answer.get("_shards", {}).get("failed"):
        reason = str(answer["_shards"].get("failures", ""))[:300]
        raise Transient(f"{call.server}: {lost} shards did not answer: {reason}")
