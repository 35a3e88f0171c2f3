"""A server with the forms of Qdrant's API reference, `POST /collections/{name}/points/query`, over Qdrant's own engine in process."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import qdrant_edge as engine

from search.filters import elements
from tests.support.servers.search_server import Handler, SearchServer

Points = Sequence[tuple[int | str, Mapping[str, Any], dict[str, Any]]]
"""Id, vectors and payload; a vector that is a text becomes its BM25 terms."""
_QUERY = re.compile(r"/collections/([^/?]+)/points/query")
_CLAUSES = ("must", "should", "must_not")
_ANSWERED_BY = {"str": "keyword", "bool": "bool", "int": "integer, float", "float": "integer, float"}
_BM25 = engine.Bm25()


class Collection:
    """With `indexes`, the payload index of each field, a condition needs one that answers it, as in strict mode."""

    def __init__(
        self,
        folder: Path,
        points: Points,
        *,
        distance: str = "Cosine",
        indexes: Mapping[str, str] | None = None,
    ) -> None:
        self._indexes = indexes
        dense = engine.EdgeVectorParams(len(points[0][1]["dense"]), getattr(engine.Distance, distance))
        terms = engine.EdgeSparseVectorParams(modifier=engine.Modifier.Idf)
        config = engine.EdgeConfig({"dense": dense}, {"bm25": terms})
        self._shard = engine.EdgeShard.create(str(folder), config)
        write = engine.UpdateOperation
        for field, kind in (indexes or {}).items():
            schema: Any = getattr(engine.PayloadSchemaType, kind.capitalize())
            schema = engine.TextIndexParams(scoring=True) if kind == "text" else schema
            self._shard.update(write.create_field_index(field, schema))
        made = [
            engine.Point(id_, _vectors(vectors), _with_texts(payload)) for id_, vectors, payload in points
        ]
        self._shard.update(write.upsert_points(made))

    def matching_ids(self, condition: Mapping[str, Any]) -> set[int | str]:
        """The ids of the points that meet a filter, whatever their vectors."""
        request = engine.QueryRequest(10_000, filter=_filter(condition))
        return {_id(point) for point in self._shard.query(request)}

    def query(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Raises Exception for what the engine refuses."""
        first = body.get("prefetch")
        for part in (first, body):
            self._check((part or {}).get("filter", {}))
        request = engine.QueryRequest(
            body["limit"],
            query=_scored(body),
            prefetches=first
            and [engine.Prefetch(first["limit"], _scored(first), filter=_filter(first["filter"]))],
            filter=_filter(body.get("filter", {})),
            with_payload=True,
        )
        hidden = [] if body["with_payload"] is True else body["with_payload"]["exclude"]
        return [
            {
                "id": _id(point),
                "version": point.version,
                "score": point.score,
                "payload": {
                    name: value
                    for name, value in (point.payload or {}).items()
                    if name not in hidden and not name.endswith(_AS_TEXT)
                },
            }
            for point in self._shard.query(request)
        ]

    def _check(self, condition: Mapping[str, Any]) -> None:
        for one in (one for name in _CLAUSES for one in condition.get(name, ())):
            self._check(one)
        if self._indexes is None or "key" not in condition:
            return
        [value, *_] = (condition.get("match") or condition["range"]).values()
        value = value[0] if isinstance(value, list) else value
        is_moment = "range" in condition and isinstance(value, str)
        needed = "datetime" if is_moment else _ANSWERED_BY[type(value).__name__]
        if self._indexes.get(condition["key"], "none") not in needed.split(", "):
            raise ValueError(
                f'Bad request: Index required but not found for "{condition["key"]}" of one of the following types: '
                f"[{needed}]. Help: Create an index for this key or use a different filter."
            )


class QdrantServer(SearchServer):
    def __init__(self, key: str) -> None:
        super().__init__()
        self.collections: dict[str, Collection] = {}
        self.answer = self._answer
        self._key = key

    def _answer(self, handler: Handler) -> None:
        request, path = self.requests[-1], _QUERY.fullmatch(handler.path)
        if request.headers.get("api-key") != self._key:
            handler.send(401, b"Must provide an API key or an Authorization bearer token")
        elif path is None or (collection := self.collections.get(path[1])) is None:
            _reply(handler, 404, {"error": f"Not found: Collection `{path and path[1]}` doesn't exist!"})
        else:
            try:
                _reply(handler, 200, "ok", {"points": collection.query(request.body)})
            except Exception as error:  # the engine raises nothing more special
                _reply(handler, 400, {"error": f"{error}"})


def _reply(handler: Handler, status: int, said: Any, result: Any = None) -> None:
    answer = {"usage": {"hardware": None, "inference": None}, "result": result, "status": said, "time": 0.001}
    handler.send(status, json.dumps(answer).encode())


def _id(point: engine.ScoredPoint) -> int | str:
    return str(point.id) if isinstance(point.id, UUID) else point.id


def _vectors(vectors: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _BM25.embed_document(one) if isinstance(one, str) else one for name, one in vectors.items()}


def _scored(body: Mapping[str, Any]) -> Any:
    query = body["query"]
    if isinstance(query, list):
        return engine.Query.Nearest(query, using=body["using"])
    if "formula" in query:
        return engine.Formula(_expression(query["formula"]))
    if "model" not in query:
        return engine.TextQuery(body["using"], query["text"])
    assert query["model"] == "qdrant/bm25"
    return engine.Query.Nearest(_BM25.embed_query(query["text"]), using=body["using"])


def _expression(formula: Any) -> engine.Expression:
    make = engine.Expression
    if not isinstance(formula, dict):
        return make.Variable(formula) if isinstance(formula, str) else make.Constant(float(formula))
    if "sum" in formula:
        return make.Sum([_expression(one) for one in formula["sum"]])
    return make.Div(_expression(formula["div"]["left"]), _expression(formula["div"]["right"]), None)


def _filter(condition: Mapping[str, Any]) -> engine.Filter:
    assert condition.keys() <= set(_CLAUSES)
    must, should, must_not = ([_condition(one) for one in condition.get(name, ())] for name in _CLAUSES)
    return engine.Filter(must or None, should or None, must_not or None)


def _condition(one: Mapping[str, Any]) -> Any:
    match one:
        case {"is_empty": {"key": field}}:
            return engine.IsEmptyCondition(field)
        case {"is_null": {"key": field}}:
            return engine.IsNullCondition(field)
        case {"key": field, "match": {"any": values}}:
            return engine.FieldCondition(field, match=engine.MatchAny(values))
        case {"key": field, "match": {"value": bool(value)}}:
            return engine.FieldCondition(f"{field}{_AS_TEXT}", match=engine.MatchValue(str(value)))
        case {"key": field, "match": {"value": value}}:
            return engine.FieldCondition(field, match=engine.MatchValue(value))
        case {"key": field, "range": bounds}:
            is_moment = any(isinstance(bound, str) for bound in bounds.values())
            made = engine.RangeDateTime(**bounds) if is_moment else engine.RangeFloat(**bounds)
            return engine.FieldCondition(field, range=made)
    return _filter(one)


_AS_TEXT = "__is"
"""The Python form of the engine takes true in a condition for the number 1, so the booleans of a field are also kept as texts."""


def _with_texts(payload: dict[str, Any]) -> dict[str, Any]:
    texts = {name: [f"{one}" for one in elements(payload, name) if isinstance(one, bool)] for name in payload}
    return payload | {f"{name}{_AS_TEXT}": values for name, values in texts.items()}
