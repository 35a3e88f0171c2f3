"""The writing side.

A batch: passages first, then the records of their documents and the deletion of what they replace, then one
refresh, by which all of it is seen at once, then the generation.  A writer that is killed in between leaves
passages that nobody sees before the next refresh, and documents whose record is still the old one, so that they
are indexed again.  What is there already is not written again: a deleted passage weighs in Lucene's word statistics
until its segment is merged.

Deletions name the passages, which one search by document id tells: `_delete_by_query` would leave out what another
writer touches meanwhile, and needs a refresh before as well.  A rebuild is given documents, since `_reindex`
would take over the old index's terms, which are what a rebuild is to make anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

from elasticsearch import Elasticsearch

from models.documents import Document, Manifest
from models.errors import PartlyWritten, StageFailure
from search.analysis import analyser
from search.checks import built_differently, check_documents, check_manifest, same_manifest, why_not
from search.elasticsearch import lookups
from search.elasticsearch.bulk import Action, send
from search.elasticsearch.connection import Connection
from search.elasticsearch.index_layout import (
    LONGEST_NAME,
    Namespace,
    alias,
    document_key,
    document_source,
    index_body,
    index_name,
    namespace_from,
    passage_key,
    passage_source,
    shared_source,
    template,
)
from search.elasticsearch.index_lookup import Namespaces
from search.elasticsearch.namespace_records import Control

_REBUILD_BATCH = 256


class Writer:
    def __init__(self, connection: Connection, namespaces: Namespaces, control: Control) -> None:
        self._connection = connection
        self._namespaces = namespaces
        self._control = control

    def create(self, namespace: str, manifest: Manifest) -> Manifest:
        check_manifest(namespace, manifest)
        analyser(manifest.language)
        found = self._namespaces.find(namespace, self._connection.deadline())
        if found is None:
            self._prepare()
            try:
                self._new_index(namespace, manifest, is_behind_alias=True)
            except StageFailure:
                # An alias has one write index: of two that create at once the second fails, and has to agree.
                if self._namespaces.find(namespace, self._connection.deadline()) is None:
                    raise
            found = self._namespaces.look_up(namespace, self._connection.deadline())
        self._control.change(namespace, lambda record: replace(record, is_there=True))
        return self._same(found, manifest)

    def upsert(self, namespace: str, documents: Sequence[Document]) -> int:
        target = self._namespaces.look_up(namespace, self._connection.deadline())
        # Of a document given twice, the last.
        chosen = list({document.document_id: document for document in documents}.values())
        check_documents(chosen, target.manifest)
        if not chosen:
            return self._control.generation(namespace, self._connection.deadline())
        self._refresh(target.index)
        refused = self._write(target, chosen)
        self._refresh(target.index)
        generation = self._control.raise_generation(namespace)
        if refused:
            raise PartlyWritten(namespace, refused, generation)
        return generation

    def delete(self, namespace: str, document_ids: Iterable[str]) -> int:
        target = self._namespaces.look_up(namespace, self._connection.deadline())
        self._refresh(target.index)
        deadline = self._connection.deadline()
        found = list(lookups.stored(self._connection, target, list(document_ids), deadline))
        if not found:
            return 0
        refused = send(self._connection, (_deletion(target, one) for one in found))
        self._refresh(target.index)
        generation = self._control.raise_generation(namespace)
        if refused:
            raise PartlyWritten(namespace, refused, generation)
        return len({one.document_id for one in found})

    def drop(self, namespace: str) -> bool:
        found = self._namespaces.find(namespace, self._connection.deadline())
        self._delete_abandoned(namespace)
        if found is None:
            return False
        self._control.change(
            namespace, lambda record: replace(record, generation=record.generation + 1, is_there=False)
        )
        self._delete_index(found.index)
        self._namespaces.forget(namespace)
        return True

    def rebuild(self, namespace: str, manifest: Manifest, documents: Iterable[Document]) -> int:
        """Build the namespace anew, of these documents, beside running searches; returns the new generation.

        Searches see the old index until all of the new one is there.  `manifest` may differ from the old one.
        Raises PartlyWritten like `upsert`; after any other failure the old index stands as it was.
        """
        check_manifest(namespace, manifest)
        analyser(manifest.language)
        self._prepare()
        old = self._namespaces.index_of(namespace, self._connection.deadline())
        self._delete_abandoned(namespace)
        index = self._new_index(namespace, manifest, is_behind_alias=False)
        refused: dict[str, str] = {}
        try:
            target = namespace_from(
                namespace, index, index_body(self._connection.endpoint, manifest)["mappings"]
            )
            given = iter(documents)
            while batch := list(islice(given, _REBUILD_BATCH)):
                check_documents(batch, manifest)
                refused |= self._write(target, batch)
            self._refresh(index)
        except BaseException:
            self._delete_index(index)
            raise
        self._point(namespace, index, old=old)
        self._namespaces.forget(namespace)
        if old is not None:
            self._delete_index(old)
        generation = self._control.change(
            namespace, lambda record: replace(record, generation=record.generation + 1, is_there=True)
        ).generation
        if refused:
            raise PartlyWritten(namespace, refused, generation)
        return generation

    def _write(self, target: Namespace, documents: Sequence[Document]) -> dict[str, str]:
        """Write what differs from what is there; why documents were refused, by their ids."""
        refused: dict[str, str] = {}
        wanted: dict[str, dict[str, Action]] = {}
        for document in documents:
            if why := _impossible(document):
                refused[document.document_id] = why
                continue
            wanted[document.document_id] = _passages(target, document)
        there: dict[str, dict[str, lookups.Stored]] = defaultdict(dict)
        for one in lookups.stored(self._connection, target, list(wanted), self._connection.deadline()):
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

    def _prepare(self) -> None:
        """Template and control index, where they are not there as they should be."""
        prefix = self._connection.endpoint.prefix
        name, wanted = f"{prefix}-namespaces", template(prefix)

        def is_there(client: Elasticsearch) -> object:
            return client.options(ignore_status=404).indices.get_index_template(name=name)

        def put(client: Elasticsearch) -> object:
            return client.indices.put_index_template(name=name, **_arguments(wanted))

        answer = self._connection.ask(is_there, self._connection.deadline())
        found = [one["index_template"].get("version") for one in answer.get("index_templates", ())]
        if found != [wanted["version"]]:
            self._connection.ask(put, self._connection.deadline())
        self._control.prepare()

    def _new_index(self, namespace: str, manifest: Manifest, *, is_behind_alias: bool) -> str:
        version = self._control.change(
            namespace, lambda record: replace(record, version=record.version + 1)
        ).version
        index = index_name(self._connection.endpoint.prefix, namespace, version)
        body = index_body(self._connection.endpoint, manifest)
        if is_behind_alias:
            body["aliases"] = {alias(self._connection.endpoint.prefix, namespace): {"is_write_index": True}}
        self._connection.ask(
            lambda client: client.indices.create(index=index, **body), self._connection.deadline()
        )
        return index

    def _point(self, namespace: str, index: str, *, old: str | None) -> None:
        """Let the namespace be this index, in one step."""
        name = alias(self._connection.endpoint.prefix, namespace)
        actions: list[Action] = [{"add": {"index": index, "alias": name, "is_write_index": True}}]
        if old is not None:
            actions.append({"remove": {"index": old, "alias": name}})
        self._connection.ask(
            lambda client: client.indices.update_aliases(actions=actions), self._connection.deadline()
        )

    def _delete_abandoned(self, namespace: str) -> None:
        """What a rebuild that was killed left."""
        for index in self._namespaces.without_alias(namespace, self._connection.deadline()):
            self._delete_index(index)

    def _delete_index(self, index: str) -> None:
        def delete(client: Elasticsearch) -> object:
            return client.options(ignore_status=404).indices.delete(index=index)

        self._connection.ask(delete, self._connection.deadline())

    def _refresh(self, index: str) -> None:
        self._connection.ask(lambda client: client.indices.refresh(index=index), self._connection.deadline())

    def _same(self, found: Namespace, manifest: Manifest) -> Manifest:
        options = self._connection.endpoint
        differing = []
        if found.words.declared != options.analyser:
            differing.append(
                f"analyser of the store is {found.words.declared!r}, asked for {options.analyser!r}"
            )
        if found.has_vectors != (options.vectors and manifest.dimension > 0):
            differing.append(f"vectors is {found.has_vectors}, asked for {options.vectors}")
        if differing:
            raise built_differently(found.name, differing)
        return same_manifest(found.name, found.manifest, manifest)


def _impossible(document: Document) -> str | None:
    """Why no server takes this document, so that it is not sent."""
    for what, name in (("id", document.document_id), ("source", document.source)):
        if len(name) > LONGEST_NAME:
            return f"its {what} has {len(name):,} characters; at most {LONGEST_NAME:,}"
    return why_not(document)


def _passages(target: Namespace, document: Document) -> dict[str, Action]:
    """What stands in the index of each passage, by key."""
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


def _arguments(body: Action) -> Action:
    """The client's name of `_meta` is `meta`."""
    return {name.lstrip("_"): value for name, value in body.items()}
