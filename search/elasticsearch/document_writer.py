"""An index of Elasticsearch and the documents in it.

A batch writes passages and the records of their documents, and deletes what they replace.  Then one refresh makes all of
it visible.  Unchanged passages are not written again, because a deleted passage counts in Lucene's word statistics until
its segment is merged.  Deletions name the passages, which one search by document id finds: `_delete_by_query` would miss
what another writer touches meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from models.documents import Document
from models.errors import PartlyWritten
from search.checks import built_differently
from search.deadline import Deadline
from search.elasticsearch import lookups
from search.elasticsearch.bulk import Action, send
from search.elasticsearch.connection import Connection, IndexCall
from search.elasticsearch.failures import MissingIndex, readable
from search.elasticsearch.index_layout import (
    LONGEST_NAME,
    Layout,
    document_key,
    document_source,
    index_body,
    layout_from,
    passage_key,
    passage_source,
    shared_source,
    template,
)
from search.protocol import Entry, Index


class DocumentWriter:
    """Implements the writing part of `search.protocol.Engine`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._layouts: dict[str, Layout] = {}
        """By the name of the index, which is never used again."""

    def create(self, index: Index) -> None:
        options = self._connection.endpoint
        try:
            layout = self._layout(index)
        except MissingIndex:
            self._prepare()
            body, name = index_body(options, index.manifest), self._name(index)
            self._connection.ask(lambda client: client.indices.create(index=name, **body))
            return
        differing = []
        if layout.words.declared != options.analyser:
            differing.append(
                f"analyser of the store is {layout.words.declared!r}, asked for {options.analyser!r}"
            )
        if layout.has_vectors != (options.vectors and index.manifest.dimension > 0):
            differing.append(f"vectors is {layout.has_vectors}, asked for {options.vectors}")
        if differing:
            raise built_differently(index.namespace, differing)

    def has(self, index: Index) -> bool:
        self._layouts.pop(index.name, None)
        try:
            self._layout(index, self._connection.deadline(self._connection.endpoint.timeout_s))
        except MissingIndex:
            return False
        return True

    def drop(self, index: Index) -> None:
        name = self._name(index)
        self._connection.ask(lambda client: client.options(ignore_status=404).indices.delete(index=name))

    def write(self, index: Index, documents: Sequence[Document], deleted: Sequence[str]) -> None:
        """Raises PartlyWritten."""
        layout = self._layout(index)
        self._refresh(layout)
        refused = self._upsert(layout, documents)
        gone = lookups.stored(self._call(layout), deleted)
        refused |= send(self._connection, [_deletion(layout, entry) for entry in gone])
        self._refresh(layout)
        if refused:
            raise PartlyWritten(index.namespace, refused)

    def entries(self, index: Index) -> Iterator[Entry]:
        layout = self._layout(index)
        self._refresh(layout)
        yield from lookups.entries(self._call(layout))

    def _layout(self, index: Index, deadline: Deadline | None = None) -> Layout:
        """How the index was made; raises MissingIndex, and BadIndex if it does not have our layout."""
        if index.name not in self._layouts:
            name = self._name(index)
            answer = self._connection.ask(lambda client: client.indices.get_mapping(index=name), deadline)
            with readable(self._connection.address):
                self._layouts[index.name] = layout_from(name, answer[name]["mappings"])
        return self._layouts[index.name]

    def _name(self, index: Index) -> str:
        return f"{self._connection.endpoint.prefix}-{index.name}"

    def _prepare(self) -> None:
        """Create the template if it is missing or outdated."""
        prefix = self._connection.endpoint.prefix
        name, declared = f"{prefix}-namespaces", template(prefix)
        answer = self._connection.ask(
            lambda client: client.options(ignore_status=404).indices.get_index_template(name=name)
        )
        versions = [made["index_template"].get("version") for made in answer.get("index_templates", ())]
        if versions != [declared["version"]]:
            self._connection.ask(lambda client: client.indices.put_index_template(name=name, **declared))

    def _upsert(self, layout: Layout, documents: Sequence[Document]) -> dict[str, str]:
        """Write what differs from the stored state; returns the reasons for refused documents, by id."""
        refused: dict[str, str] = {}
        sources: dict[str, dict[str, Action]] = {}
        for document in documents:
            if why := _impossible(document):
                refused[document.document_id] = why
            else:
                sources[document.document_id] = _sources(layout, document)
        there: dict[str, dict[str, lookups.Stored]] = defaultdict(dict)
        for entry in lookups.stored(self._call(layout), list(sources)):
            there[entry.document_id][_key(entry)] = entry
        owners = {key: document_id for document_id, of_document in sources.items() for key in of_document}
        changed = (
            {"_op_type": "index", "_index": layout.index, "_id": key, "_source": source}
            for document_id, of_document in sources.items()
            for key, source in of_document.items()
            if key not in (mine := there[document_id]) or mine[key].digest != source["digest"]
        )
        refused |= {owners[key]: why for key, why in send(self._connection, changed).items()}
        stale = {
            key: entry
            for document_id in sources.keys() - refused.keys()
            for key, entry in there[document_id].items()
            if key not in sources[document_id]
        }
        failures = send(self._connection, [_deletion(layout, entry) for entry in stale.values()])
        return refused | {stale[key].document_id: why for key, why in failures.items()}

    def _call(self, layout: Layout) -> IndexCall:
        return IndexCall(self._connection, layout, self._connection.deadline())

    def _refresh(self, layout: Layout) -> None:
        self._connection.ask(lambda client: client.indices.refresh(index=layout.index))


def _impossible(document: Document) -> str | None:
    """The reason why no index takes this document; None if one can take it."""
    for what, name in (("id", document.document_id), ("source", document.source)):
        if len(name) > LONGEST_NAME:
            return f"its {what} has {len(name):,} characters; at most {LONGEST_NAME:,}"
    return None


def _sources(layout: Layout, document: Document) -> dict[str, Action]:
    """The content of the index for each passage, and for the record of the document, by key."""
    shared = shared_source(document)
    passages = {
        passage_key(passage.passage_id): passage_source(layout, document, passage, shared)
        for passage in document.passages
    }
    return passages | {document_key(document.document_id): document_source(document)}


def _key(entry: lookups.Stored) -> str:
    return passage_key(entry.passage_id) if entry.passage_id else document_key(entry.document_id)


def _deletion(layout: Layout, entry: lookups.Stored) -> Action:
    return {"_op_type": "delete", "_index": layout.index, "_id": _key(entry)}
