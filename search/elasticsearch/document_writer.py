"""An index of Elasticsearch and the documents in it.

A batch writes passages, then the records of their documents and the deletion of what they replace.  Then one
refresh makes all of it visible.  A writer killed in between leaves passages that nobody
sees before the next refresh, and documents with the old record, which are therefore indexed again.  Unchanged
passages are not written again, because a deleted passage counts in Lucene's word statistics until its segment is
merged.

Deletions name the passages, which one search by document id finds: `_delete_by_query` would miss what another
writer touches meanwhile, and needs a refresh before, too.  A rebuild receives documents, because `_reindex` would
copy the old terms, which the rebuild has to replace.
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
        passages_of: dict[str, dict[str, Action]] = {}
        for document in documents:
            if why := _impossible(document):
                refused[document.document_id] = why
                continue
            passages_of[document.document_id] = _passages(layout, document)
        there: dict[str, dict[str, lookups.Stored]] = defaultdict(dict)
        for entry in lookups.stored(self._call(layout), list(passages_of)):
            there[entry.document_id][_key(entry)] = entry
        owners = {key: document_id for document_id, passages in passages_of.items() for key in passages}
        changed = (
            _indexing(layout, key, source)
            for document_id, passages in passages_of.items()
            for key, source in passages.items()
            if not _is_there(there[document_id], key, source)
        )
        refused |= {owners[key]: why for key, why in send(self._connection, changed).items()}
        after: list[Action] = []
        for document in documents:
            if document.document_id in refused:
                continue
            key, source = document_key(document.document_id), document_source(document)
            mine = there[document.document_id]
            owners[key] = document.document_id
            if not _is_there(mine, key, source):
                after.append(_indexing(layout, key, source))
            stale = mine.keys() - passages_of[document.document_id].keys() - {key}
            owners |= dict.fromkeys(stale, document.document_id)
            after += [_deletion(layout, mine[key]) for key in sorted(stale)]
        return refused | {owners[key]: why for key, why in send(self._connection, after).items()}

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


def _passages(layout: Layout, document: Document) -> dict[str, Action]:
    """The content of the index for each passage, by key."""
    shared = shared_source(document)
    return {
        passage_key(passage.passage_id): passage_source(layout, document, passage, shared)
        for passage in document.passages
    }


def _key(entry: lookups.Stored) -> str:
    return passage_key(entry.passage_id) if entry.passage_id else document_key(entry.document_id)


def _is_there(mine: dict[str, lookups.Stored], key: str, source: Action) -> bool:
    return key in mine and mine[key].digest == source["digest"]


def _indexing(layout: Layout, key: str, source: Action) -> Action:
    return {"_op_type": "index", "_index": layout.index, "_id": key, "_source": source}


def _deletion(layout: Layout, entry: lookups.Stored) -> Action:
    return {"_op_type": "delete", "_index": layout.index, "_id": _key(entry)}
