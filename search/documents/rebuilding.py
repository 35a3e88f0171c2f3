"""Rebuilding a namespace while the old one is searched; stores build their indexes when it is complete."""

from __future__ import annotations

from models.documents import Manifest
from search.checks import check_manifest
from search.documents.document_table import NEXT
from search.documents.store import DocumentStore


class Rebuilding(DocumentStore):
    """A second build of a namespace, begun or continued with the same manifest; no store is written before `finish`."""

    which = NEXT

    def __init__(self, store: DocumentStore, namespace: str, manifest: Manifest) -> None:
        super().__init__({}, store.table)
        self._store, self._namespace = store, namespace
        check_manifest(namespace, manifest)
        with self.exclusive(namespace):
            begun = self.table.find(namespace, NEXT)
            if begun is not None and begun.manifest != manifest:
                self.table.drop(namespace, NEXT)
                begun = None
            if begun is None:
                self.table.make(namespace, manifest, NEXT)

    def finish(self) -> int:
        """Make the new build the current one and have every store build its index; returns the generation.

        After a failure `settle` continues from here.
        """
        with self.exclusive(self._namespace):
            self.table.promote(self.known(self._namespace))
            self._store.settle(self._namespace)
            return self.table.generation(self._namespace)
