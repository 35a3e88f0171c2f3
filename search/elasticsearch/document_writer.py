"""Writing documents.

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
from collections.abc import Sequence

from models.documents import Document
from models.errors import PartlyWritten
from search.elasticsearch import lookups
from search.elasticsearch.bulk import Action, send
from search.elasticsearch.connection import Connection, IndexCall
from search.elasticsearch.index_layout import (
    LONGEST_NAME,
    Namespace,
    document_key,
    document_source,
    passage_key,
    passage_source,
    shared_source,
)
from search.elasticsearch.index_lookup import IndexLookup


class DocumentWriter:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lookup = IndexLookup(connection)

    def upsert(self, namespace: str, documents: Sequence[Document]) -> None:
        """Raises PartlyWritten."""
        target = self._lookup.look_up(namespace)
        self._refresh(target.index)
        self._show(target, self._write(target, documents))

    def delete(self, namespace: str, document_ids: Sequence[str]) -> None:
        target = self._lookup.look_up(namespace)
        self._refresh(target.index)
        found = lookups.stored(self._call(target), document_ids)
        self._show(target, send(self._connection, [_deletion(target, one) for one in found]))

    def _show(self, target: Namespace, refused: dict[str, str]) -> None:
        """Make the batch visible; raises PartlyWritten if something was refused."""
        self._refresh(target.index)
        if refused:
            raise PartlyWritten(target.name, refused)

    def _write(self, target: Namespace, documents: Sequence[Document]) -> dict[str, str]:
        """Write what differs from the stored state; returns the reasons for refused documents, by id."""
        refused: dict[str, str] = {}
        wanted: dict[str, dict[str, Action]] = {}
        for document in documents:
            if why := _impossible(document):
                refused[document.document_id] = why
                continue
            wanted[document.document_id] = _passages(target, document)
        there: dict[str, dict[str, lookups.Stored]] = defaultdict(dict)
        for one in lookups.stored(self._call(target), list(wanted)):
            there[one.document_id][_key(one)] = one
        owners = {key: document_id for document_id, passages in wanted.items() for key in passages}
        changed = (
            _indexing(target, key, source)
            for document_id, passages in wanted.items()
            for key, source in passages.items()
            if not _is_there(there[document_id], key, source)
        )
        refused |= {owners[key]: why for key, why in send(self._connection, changed).items()}
        whole = [
            document
            for document in documents
            if document.document_id in wanted and document.document_id not in refused
        ]
        after: list[Action] = []
        for document in whole:
            key, source = document_key(document.document_id), document_source(document)
            mine = there[document.document_id]
            owners[key] = document.document_id
            if not _is_there(mine, key, source):
                after.append(_indexing(target, key, source))
            stale = mine.keys() - wanted[document.document_id].keys() - {key}
            owners |= dict.fromkeys(stale, document.document_id)
            after += [_deletion(target, mine[one]) for one in sorted(stale)]
        return refused | {owners[key]: why for key, why in send(self._connection, after).items()}

    def _call(self, namespace: Namespace) -> IndexCall:
        return IndexCall(self._connection, namespace, self._connection.deadline())

    def _refresh(self, index: str) -> None:
        self._connection.ask(lambda client: client.indices.refresh(index=index))


def _impossible(document: Document) -> str | None:
    """The reason why no index takes this document; None if one can take it."""
    for what, name in (("id", document.document_id), ("source", document.source)):
        if len(name) > LONGEST_NAME:
            return f"its {what} has {len(name):,} characters; at most {LONGEST_NAME:,}"
    return None


def _passages(target: Namespace, document: Document) -> dict[str, Action]:
    """The content of the index for each passage, by key."""
    shared = shared_source(document)
    return {
        passage_key(passage.passage_id): passage_source(target, document, passage, shared)
        for passage in document.passages
    }


def _key(one: lookups.Stored) -> str:
    return passage_key(one.passage_id) if one.passage_id else document_key(one.document_id)


def _is_there(mine: dict[str, lookups.Stored], key: str, source: Action) -> bool:
    return key in mine and mine[key].digest == source["digest"]


def _indexing(target: Namespace, key: str, source: Action) -> Action:
    return {"_op_type": "index", "_index": target.index, "_id": key, "_source": source}


def _deletion(target: Namespace, one: lookups.Stored) -> Action:
    return {"_op_type": "delete", "_index": target.index, "_id": _key(one)}
