"""The graph of each namespace, which threads build anew whenever its documents have changed."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from time import monotonic
from typing import Any, NamedTuple, Protocol

import kglite

from models.batching import in_batches
from models.documents import NamespaceState, PassageText, Vector
from models.errors import StoreTimeout, UnknownNamespace
from models.hits import Hit, Ranking
from search.cypher_rows import CypherAlone, ranked, score_of, with_limits
from search.deadline import Deadline
from search.engines.graph.statement_process import StatementProcess
from search.filters import elements
from search.protocol import Lists, Search, Searches

_AT_ONCE = 500
_LONGEST_INTEGER = 2**63
_LONGEST_NAME = 8
"""Words of a name that is looked for in a question."""
_WORD = re.compile(r"\w(?:[\w'’./-]*\w)?")
_NODES = "UNWIND $rows AS row CREATE (node:{label}) SET node = row"
_RELATIONS = "UNWIND $rows AS row MATCH (a:Document {{id: row.a}}), (b:{label} {{id: row.b}}) CREATE (a)-[:{relation}]->(b)"


class Documents(Searches, Lists, Protocol):
    """The store whose documents are read."""

    def namespaces(self) -> list[NamespaceState]: ...


class BuiltGraph(NamedTuple):
    graph: bytes
    generation: int | None
    """Of the documents' store, before they were read."""
    names: Mapping[str, str]
    """Titles of documents and names of entities, by the name in lower case."""


class _Link(NamedTuple):
    relation: str
    document_id: str
    target: str


def build_graph(
    documents: Documents, namespace: str, links: Mapping[str, str], deadline: Deadline
) -> BuiltGraph:
    """`links`: the metadata field by the name of the relation.  Raises StageFailure."""
    kglite.set_query_warning_policy("silent")
    generation = documents.generation(namespace, timeout_s=deadline.check())
    graph = kglite.KnowledgeGraph()
    named: dict[str, str] = {}
    """The document's id by each name that a link may use, in lower case.  Of several documents with one title the first counts."""
    short_names: dict[str, str] = {}
    titles: dict[str, str] = {}
    all_links: list[_Link] = []
    for batch in in_batches(_documents(documents, namespace, deadline), _AT_ONCE):
        graph.cypher(_NODES.format(label="Document"), params={"rows": [_properties(text) for text in batch]})
        for text in batch:
            named[text.document_id.casefold()] = text.document_id
            titles.setdefault(text.title.casefold(), text.title)
            for name in (text.document_id.partition("/")[2], text.title):
                short_names.setdefault(name.casefold(), text.document_id)
            all_links += _links(text, links)
    named = {name: id_ for name, id_ in (short_names | named).items() if name}
    entities = {
        link.target.casefold(): link.target
        for link in reversed(all_links)
        if link.target.casefold() not in named
    }
    for names in in_batches(entities.values(), _AT_ONCE):
        rows = [{"id": name, "name": name} for name in names]
        graph.cypher(_NODES.format(label="Entity"), params={"rows": rows})
    for relation in links:
        own = [link for link in all_links if link.relation == relation]
        for label, ids in (("Document", named), ("Entity", entities)):
            edges = dict.fromkeys(
                (link.document_id, ids[name]) for link in own if (name := link.target.casefold()) in ids
            )
            for pairs in in_batches(edges, _AT_ONCE):
                deadline.check()
                rows = [{"a": a, "b": b} for a, b in pairs]
                graph.cypher(_RELATIONS.format(label=label, relation=relation), params={"rows": rows})
    graph.create_index("Document", "title")
    graph.create_index("Entity", "name")
    return BuiltGraph(graph.to_bytes(), generation, entities | titles)


def _documents(documents: Documents, namespace: str, deadline: Deadline) -> Iterator[PassageText]:
    """The first passage of every document, in the order of the ids."""
    everything = Search(depth=2**31, timeout_s=deadline.check())
    listed = documents.list_documents(namespace, everything, order_by="document_id", descending=False)
    for ids in in_batches(sorted((hit.document_id, hit.passage_id) for hit in listed.hits), _AT_ONCE):
        passages = [passage for _, passage in ids]
        texts = documents.texts(namespace, passages, timeout_s=deadline.check())
        yield from (texts[passage] for passage in passages if passage in texts)


def _properties(text: PassageText) -> dict[str, Any]:
    """Texts, numbers, true, false and lists of these."""
    fields = {name: value for name, value in text.metadata.items() if _is_plain(value)}
    return {**fields, "id": text.document_id, "title": text.title}


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and not any(
            isinstance(element, list) or not _is_plain(element) for element in value
        )
    return abs(value) < _LONGEST_INTEGER if isinstance(value, int) else isinstance(value, str | float)


def _links(text: PassageText, links: Mapping[str, str]) -> Iterator[_Link]:
    for relation, field in links.items():
        for value in elements(text.metadata, field):
            if isinstance(value, str) and (target := value.strip()):
                yield _Link(relation, text.document_id, target)


BUILD_S = 600.0
_SHARE = 0.25
"""The share of a search's time that waits for a newer graph where an older one can answer."""


class DerivedGraph(CypherAlone):
    """Implements `search.protocol.Searches` and `RunsCypher`; thread-safe.

    A hit is a document of the other store as it is now: that store compares its filters and has its first passage and its text.
    """

    def __init__(
        self, name: str, documents: Documents, links: Mapping[str, str], *, is_warmed: bool = True
    ) -> None:
        """`is_warmed`: whether `warm` builds graphs; a process without a branch of kind `graph` needs none."""
        self.subject = f"the graph {name!r}"
        self._documents = documents
        self._links = links
        self._is_warmed = is_warmed
        self._graphs: dict[str, BuiltGraph] = {}
        self._building: dict[str, Future[BuiltGraph]] = {}
        self._lock = threading.Lock()
        self._statements = StatementProcess(self.subject)

    def names_in(self, namespace: str, text: str, *, timeout_s: float) -> list[str]:
        names = (self._graphs.get(namespace) or self._newest(namespace, timeout_s)).names
        folded = " ".join(text.casefold().split())
        words = [word.span() for word in _WORD.finditer(folded)]
        runs = (
            folded[words[first][0] : words[last][1]]
            for first in range(len(words))
            for last in range(first, min(first + _LONGEST_NAME, len(words)))
        )
        return list(dict.fromkeys(names[run] for run in runs if run in names))

    def search_cypher(
        self,
        namespace: str,
        statement: str,
        values: Sequence[Mapping[str, Any]],
        search: Search,
        *,
        score: str | None = None,
    ) -> list[Ranking]:
        deadline = Deadline(search.timeout_s, self.subject)
        built = self._graphs.get(namespace)
        if built is None or built.generation != search.generation:
            self._newest(namespace, search.timeout_s)
        scores = [
            self._scores(namespace, statement, with_limits(parameters, namespace, search), deadline, score)
            for parameters in values
        ]
        hits, warnings = self._hits(
            namespace, [id_ for question_scores in scores for id_ in question_scores], search, deadline
        )
        return [self._ranking(question_scores, hits, search, warnings) for question_scores in scores]

    def vectors(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 10.0
    ) -> dict[str, Vector]:
        return self._documents.vectors(namespace, passage_ids, timeout_s=timeout_s)

    def texts(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 0.5
    ) -> dict[str, PassageText]:
        return self._documents.texts(namespace, passage_ids, timeout_s=timeout_s)

    def generation(self, namespace: str, *, timeout_s: float = 10.0) -> int | None:
        return self._newest(namespace, timeout_s).generation

    def warm(self, namespace: str | None = None) -> None:
        if self._is_warmed:
            states = self._documents.namespaces() if namespace is None else ()
            for name in [namespace] if namespace else [state.name for state in states]:
                self._newest(name, BUILD_S)

    def close(self) -> None:
        self._graphs.clear()
        self._statements.close()

    def _newest(self, namespace: str, timeout_s: float) -> BuiltGraph:
        """The graph of the documents as they are now; an older one if that is not ready in a share of the time."""
        deadline = Deadline(timeout_s, self.subject)
        patient_until_s = monotonic() + _SHARE * timeout_s
        while True:
            try:
                generation = self._documents.generation(namespace, timeout_s=deadline.check())
            except UnknownNamespace:
                self._forget(namespace)
                raise
            built = self._graphs.get(namespace)
            if built is not None and built.generation == generation:
                return built
            wait_s = deadline.remaining_s if built is None else patient_until_s - monotonic()
            try:
                self._in_progress(namespace).result(max(0.0, wait_s))
            except TimeoutError:
                if built is not None:
                    return built
                raise StoreTimeout(f"{self.subject} of the namespace is still being built") from None

    def _forget(self, namespace: str) -> None:
        if self._graphs.pop(namespace, None) is not None:
            self._statements.put(namespace, None)

    def _in_progress(self, namespace: str) -> Future[BuiltGraph]:
        with self._lock:
            if namespace not in self._building:
                future: Future[BuiltGraph] = Future()
                self._building[namespace] = future
                # A daemon, because a process that ends does not wait for a graph.
                threading.Thread(
                    target=self._build, args=(namespace, future), name="graph", daemon=True
                ).start()
            return self._building[namespace]

    def _build(self, namespace: str, future: Future[BuiltGraph]) -> None:
        deadline = Deadline(BUILD_S, f"building {self.subject}")
        try:
            if namespace not in self._graphs:
                there = {state.name for state in self._documents.namespaces()}
                for gone in self._graphs.keys() - there:
                    self._forget(gone)
            built = build_graph(self._documents, namespace, self._links, deadline)
            self._statements.put(namespace, built.graph)
        except BaseException as error:
            with self._lock:
                del self._building[namespace]
            future.set_exception(error)
        else:
            with self._lock:
                self._graphs[namespace] = built
                del self._building[namespace]
            future.set_result(built)

    def _scores(
        self,
        namespace: str,
        statement: str,
        values: Mapping[str, Any],
        deadline: Deadline,
        score: str | None,
    ) -> dict[str, float]:
        """The score of each id, best first."""
        wanted = ["id", score] if score else ["id"]
        rows, columns = self._statements.rows(namespace, statement, values, deadline, wanted=wanted)
        scores: dict[str, float] = {}
        for row in ranked(rows, columns, score):
            if isinstance(row["id"], str):
                scores.setdefault(row["id"], score_of(row, score))
        return scores

    def _hits(
        self, namespace: str, ids: Sequence[str], search: Search, deadline: Deadline
    ) -> tuple[dict[str, Hit], tuple[str, ...]]:
        """The documents of these ids that the search lets through, and warnings about its filters."""
        if not ids:
            return {}, ()
        only = list(dict.fromkeys(ids))
        listed = self._documents.list_documents(
            namespace,
            replace(search, depth=len(only), only_ids=only, timeout_s=deadline.check(), generation=None),
            order_by="published_at",
            descending=True,
        )
        return {hit.document_id: hit for hit in listed.hits}, listed.warnings

    @staticmethod
    def _ranking(
        scores: Mapping[str, float], hits: Mapping[str, Hit], search: Search, warnings: tuple[str, ...]
    ) -> Ranking:
        ranked = [hits[id_]._replace(score=score) for id_, score in scores.items() if id_ in hits]
        return Ranking(tuple(ranked[: search.depth]), None, warnings)
