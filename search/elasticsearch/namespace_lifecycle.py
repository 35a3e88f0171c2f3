"""Creating, deleting and rebuilding a namespace: its index and its alias."""

from __future__ import annotations

import time
from collections.abc import Iterable

from models.batching import in_batches
from models.documents import Document, Manifest
from models.errors import PartlyWritten, StageFailure
from search.checks import built_differently, check_manifest, same_manifest
from search.elasticsearch.bulk import Action
from search.elasticsearch.document_writer import DocumentWriter
from search.elasticsearch.index_layout import (
    Namespace,
    alias,
    index_body,
    index_name,
    namespace_from,
    template,
)

_REBUILD_BATCH = 256


class NamespaceLifecycle(DocumentWriter):
    def create(self, namespace: str, manifest: Manifest) -> Manifest:
        check_manifest(namespace, manifest)
        found = self._lookup.find(namespace)
        if found is None:
            self._prepare()
            try:
                self._new_index(namespace, manifest, is_behind_alias=True)
            except StageFailure:
                # An alias has one write index: of two concurrent creations the second fails, and its manifest must
                # agree.
                if self._lookup.find(namespace) is None:
                    raise
            found = self._lookup.look_up(namespace)
        return self._same(found, manifest)

    def has(self, namespace: str) -> bool:
        deadline = self._connection.deadline(self._connection.endpoint.timeout_s)
        return self._lookup.find(namespace, deadline) is not None

    def drop(self, namespace: str) -> bool:
        found = self._lookup.find(namespace)
        self._delete_abandoned(namespace)
        if found is None:
            return False
        self._delete_index(found.index)
        self._lookup.forget(namespace)
        return True

    def rebuild(self, namespace: str, manifest: Manifest, documents: Iterable[Document]) -> None:
        """Rebuild the namespace from these documents while searches go on.

        Searches see the old index until the new one is complete.  `manifest` may differ from the old one.  Raises
        PartlyWritten like `upsert`; after any other failure the old index stays as it was.
        """
        check_manifest(namespace, manifest)
        self._prepare()
        found = self._lookup.behind_alias(namespace)
        old = None if found is None else found[0]
        self._delete_abandoned(namespace)
        index = self._new_index(namespace, manifest, is_behind_alias=False)
        refused: dict[str, str] = {}
        try:
            target = namespace_from(
                namespace, index, index_body(self._connection.endpoint, manifest)["mappings"]
            )
            for batch in in_batches(documents, _REBUILD_BATCH):
                refused |= self._write(target, batch)
            self._refresh(index)
        except BaseException:
            self._delete_index(index)
            raise
        self._point(namespace, index, old=old)
        self._lookup.forget(namespace)
        if old is not None:
            self._delete_index(old)
        if refused:
            raise PartlyWritten(namespace, refused)

    def _prepare(self) -> None:
        """Create the template if it is missing or outdated."""
        prefix = self._connection.endpoint.prefix
        name, wanted = f"{prefix}-namespaces", template(prefix)
        answer = self._connection.ask(
            lambda client: client.options(ignore_status=404).indices.get_index_template(name=name)
        )
        found = [one["index_template"].get("version") for one in answer.get("index_templates", ())]
        if found != [wanted["version"]]:
            self._connection.ask(lambda client: client.indices.put_index_template(name=name, **wanted))

    def _new_index(self, namespace: str, manifest: Manifest, *, is_behind_alias: bool) -> str:
        # Never used again, so that what is cached about an index stays true.
        index = index_name(self._connection.endpoint.prefix, namespace, time.time_ns())
        body = index_body(self._connection.endpoint, manifest)
        if is_behind_alias:
            body["aliases"] = {alias(self._connection.endpoint.prefix, namespace): {"is_write_index": True}}
        self._connection.ask(lambda client: client.indices.create(index=index, **body))
        return index

    def _point(self, namespace: str, index: str, *, old: str | None) -> None:
        """Point the namespace's alias to this index, atomically."""
        name = alias(self._connection.endpoint.prefix, namespace)
        actions: list[Action] = [{"add": {"index": index, "alias": name, "is_write_index": True}}]
        if old is not None:
            actions.append({"remove": {"index": old, "alias": name}})
        self._connection.ask(lambda client: client.indices.update_aliases(actions=actions))

    def _delete_abandoned(self, namespace: str) -> None:
        """Delete what a killed rebuild left."""
        for index in self._lookup.without_alias(namespace):
            self._delete_index(index)

    def _delete_index(self, index: str) -> None:
        self._connection.ask(lambda client: client.options(ignore_status=404).indices.delete(index=index))

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
