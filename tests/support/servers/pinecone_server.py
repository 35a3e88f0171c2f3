"""A server with the forms of Pinecone's API reference: `/embed`, `/query`, and the search of an index with integrated embedding."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Mapping
from typing import Any

from inference.protocol import Embedder
from search.filters import is_number
from tests.support.servers.search_server import Handler, SearchServer

RANGES = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
_INTEGRATED = re.compile("/records/namespaces/([^/]+)/search")


class PineconeServer(SearchServer):
    """`records` are the id, the metadata and the text of each record, by namespace."""

    def __init__(self, embedder: Embedder, key: str) -> None:
        super().__init__()
        self.records: dict[str, dict[str, tuple[dict[str, Any], str]]] = {}
        self.answer = self._answer
        self._embedder, self._key = embedder, key

    def bodies_at(self, path: str) -> list[Any]:
        """The bodies that this path was sent."""
        return [request.body for request in self.requests if request.target == path]

    def _answer(self, handler: Handler) -> None:
        request = self.requests[-1]
        if request.headers.get("api-key") != self._key:
            handler.send(401, b"Invalid API Key")
        elif handler.path == "/embed":
            _reply(handler, self._embeds(**request.body))
        elif handler.path == "/query":
            _reply(handler, self._queries(**request.body))
        elif integrated := _INTEGRATED.fullmatch(handler.path):
            _reply(handler, self._searches(integrated[1], **request.body))
        else:
            handler.send(404, b"")

    def _embeds(self, model: str, inputs: list[dict[str, str]], parameters: dict[str, str]) -> Any:
        texts = [one["text"] for one in inputs]
        is_query = {"query": True, "passage": False}[parameters["input_type"]]
        vectors = (self._embedder.embed_questions if is_query else self._embedder.embed_passages)(texts)
        rows = [{"vector_type": "dense", "values": vector} for vector in vectors.tolist()]
        return {"model": model, "vector_type": "dense", "data": rows, "usage": {"total_tokens": len(texts)}}

    def _queries(
        self,
        vector: list[float],
        topK: int,  # noqa: N803
        namespace: str,
        filter: dict[str, Any],
        includeMetadata: bool,  # noqa: N803
    ) -> Any:
        matches = [
            {"id": id_, "score": score, "values": [], **({"metadata": metadata} if includeMetadata else {})}
            for id_, score, metadata, _ in self._nearest(namespace, vector, filter, topK)
        ]
        return {"matches": matches, "namespace": namespace, "usage": {"readUnits": 1}}

    def _searches(self, namespace: str, query: dict[str, Any]) -> Any:
        [vector] = self._embedder.embed_questions([query["inputs"]["text"]]).tolist()
        hits = [
            {"_id": id_, "_score": score, "fields": {**metadata, "chunk_text": text}}
            for id_, score, metadata, text in self._nearest(
                namespace, vector, query["filter"], query["top_k"]
            )
        ]
        return {"result": {"hits": hits}, "usage": {"read_units": 1, "embed_total_tokens": 1}}

    def _nearest(
        self, namespace: str, vector: list[float], condition: dict[str, Any], top_k: int
    ) -> list[tuple[str, float, dict[str, Any], str]]:
        """Id, cosine, metadata and text."""
        records = self.records.get(namespace, {})
        vectors = self._embedder.embed_passages([text for _, text in records.values()]).tolist()
        matches = [
            (id_, sum(map(operator.mul, vector, own)), metadata, text)
            for (id_, (metadata, text)), own in zip(records.items(), vectors, strict=True)
            if meets(condition, metadata)
        ]
        return sorted(matches, key=lambda one: -one[1])[:top_k]


def _reply(handler: Handler, answer: Any) -> None:
    handler.send(200, json.dumps(answer).encode())


def meets(condition: Mapping[str, Any], fields: Mapping[str, Any]) -> bool:
    """Whether a record with these metadata meets a filter of Pinecone's query language."""
    return all(_meets(name, part, fields) for name, part in condition.items())


def _meets(name: str, part: Any, fields: Mapping[str, Any]) -> bool:
    if name in ("$and", "$or"):
        return (all if name == "$and" else any)(meets(one, fields) for one in part)
    values, [(word, wanted)] = _listed(fields.get(name)), part.items()
    match word:
        case "$eq":
            return any(_same(value, wanted) for value in values)
        case "$in":
            return any(_same(value, one) for value in values for one in wanted)
        case "$exists":
            return bool(values) is wanted
    return any(is_number(value) and RANGES[word[1:]](value, wanted) for value in values)


def _listed(value: Any) -> list[Any]:
    return [one for one in (value if isinstance(value, list) else [value]) if one is not None]


def _same(a: Any, b: Any) -> bool:
    return bool((type(a) is type(b) or (is_number(a) and is_number(b))) and a == b)
