"""Makes the graph of a namespace: a node for each document, and relations from a field of its metadata.

`(:Document {id, title, <metadata>})`; a link leads to the document that it names by its id, by its id without the source, or by
its title, and otherwise to an `(:Entity {id, name})`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import kglite

from models.batching import in_batches
from models.documents import NamespaceState, PassageText
from search.deadline import Deadline
from search.filters import elements
from search.protocol import Lists, Search, Searches

_AT_ONCE = 500
_LONGEST_INTEGER = 2**63
_NODES = "UNWIND $rows AS row CREATE (node:{label}) SET node = row"
_RELATIONS = "UNWIND $rows AS row MATCH (a:Document {{id: row.a}}), (b:{label} {{id: row.b}}) CREATE (a)-[:{relation}]->(b)"


class Documents(Searches, Lists, Protocol):
    """The store whose documents are read."""

    def namespaces(self) -> list[NamespaceState]: ...


class BuiltGraph(NamedTuple):
    graph: kglite.KnowledgeGraph
    generation: int | None
    """Of the documents' store, before they were read."""


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
    all_links: list[_Link] = []
    for batch in in_batches(_documents(documents, namespace, deadline), _AT_ONCE):
        graph.cypher(_NODES.format(label="Document"), params={"rows": [_properties(text) for text in batch]})
        for text in batch:
            named[text.document_id.casefold()] = text.document_id
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
    graph.read_only(True)
    return BuiltGraph(graph, generation)


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
