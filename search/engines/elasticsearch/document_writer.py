"""An index of the server and the documents in it.

A batch writes passages and the records of their documents, and deletes what they replace.  Then one refresh makes all of
it visible.  Unchanged passages are not written again, because a deleted passage counts in Lucene's word statistics until
its segment is merged.  Deletions name the passages, which one search by document id finds: `_delete_by_query` would miss
what another writer touches meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from models.documents import Document
from models.errors import PartlyWritten
from search.checks import built_differently
from search.deadline import Deadline
from search.engines.elasticsearch import lookups
from search.engines.elasticsearch.bulk_writing import Action, send
from search.engines.elasticsearch.connection import Connection, DialectCall
from search.engines.elasticsearch.dialect import Request, as_json
from search.engines.elasticsearch.index_layout import (
    Layout,
    document_source,
    index_body,
    key_of,
    layout_from,
    passage_source,
    template,
)
from search.protocol import Entry, Index
from search.served_fields import served_fields
from search.server_store import MissingIndex


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
            body = index_body(self._connection.dialect, index.manifest)
            self._connection.send(Request("PUT", self._path(index), as_json(body)))
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

    def drop(self, index: Index) -> None:
        self._connection.send(Request("DELETE", self._path(index), may_miss=True))

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
            self._layouts[index.name] = self._connection.send(
                Request("GET", f"{self._path(index)}/_mapping"),
                deadline,
                lambda answer: layout_from(name, answer[name]["mappings"]),
            )
        return self._layouts[index.name]

    def _name(self, index: Index) -> str:
        return f"{self._connection.endpoint.prefix}-{index.name}"

    def _path(self, index: Index) -> str:
        return f"/{quote(self._name(index), safe='')}"

    def _prepare(self) -> None:
        """Create the template if it is missing or outdated."""
        prefix = self._connection.endpoint.prefix
        path, declared = f"/_index_template/{prefix}-namespaces", template(prefix)
        answer = self._connection.send(Request("GET", path, may_miss=True))
        versions = [made["index_template"].get("version") for made in answer.get("index_templates", ())]
        if versions != [declared["version"]]:
            self._connection.send(Request("PUT", path, as_json(declared)))

    def _upsert(self, layout: Layout, documents: Sequence[Document]) -> dict[str, str]:
        """Write what differs from the stored state; returns the reasons for refused documents, by id."""
        sources = {document.document_id: _sources(layout, document) for document in documents}
        there: dict[str, dict[str, lookups.Stored]] = defaultdict(dict)
        for entry in lookups.stored(self._call(layout), list(sources)):
            there[entry.document_id][key_of(entry.document_id, entry.passage_id)] = entry
        owners = {
            key: document_id for document_id, document_sources in sources.items() for key in document_sources
        }
        changed = (
            {"_op_type": "index", "_index": layout.index, "_id": key, "_source": source}
            for document_id, document_sources in sources.items()
            for key, source in document_sources.items()
            if key not in (mine := there[document_id]) or mine[key].digest != source["digest"]
        )
        refused = {owners[key]: why for key, why in send(self._connection, changed).items()}
        stale = {
            key: entry
            for document_id in sources.keys() - refused.keys()
            for key, entry in there[document_id].items()
            if key not in sources[document_id]
        }
        failures = send(self._connection, [_deletion(layout, entry) for entry in stale.values()])
        return refused | {stale[key].document_id: why for key, why in failures.items()}

    def _call(self, layout: Layout) -> DialectCall:
        limit_s = self._connection.endpoint.write_timeout_s
        return DialectCall.on(self._connection, layout, self._connection.deadline(limit_s))

    def _refresh(self, layout: Layout) -> None:
        self._connection.send(Request("POST", f"/{quote(layout.index, safe='')}/_refresh"))


def _sources(layout: Layout, document: Document) -> dict[str, Action]:
    """The content of the index for each passage, and for the record of the document, by key."""
    shared, texts = served_fields(document), layout.words.indexed(document)
    passages = {
        key_of(document.document_id, passage.passage_id): passage_source(layout, passage, text, shared)
        for passage, text in zip(document.passages, texts.passages, strict=True)
    }
    return passages | {key_of(document.document_id): document_source(document, texts.document)}


def _deletion(layout: Layout, entry: lookups.Stored) -> Action:
    return {"_op_type": "delete", "_index": layout.index, "_id": key_of(entry.document_id, entry.passage_id)}
