"""Rebuilding a namespace beside the one that is searched; stores build their indexes when it is complete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from models.documents import Document, Manifest
from models.errors import PartlyWritten
from search.checks import checked_documents, refusal_reason
from search.documents.document_rows import storable
from search.documents.document_table import NEXT, Build, DocumentTable
from search.near_duplicate_rows import NearDuplicateRows


class Rebuilding:
    """Implements `search.protocol.WritesDocuments`; no store is written before `finish`."""

    def __init__(
        self, table: DocumentTable, namespace: str, manifest: Manifest, *, finish: Callable[[Build], int]
    ) -> None:
        self._table = table
        self._namespace = namespace
        self._finish = finish
        self.create(namespace, manifest)

    def create(self, namespace: str, manifest: Manifest) -> Manifest:
        with self._table.exclusive(namespace):
            begun = self._table.find(namespace, NEXT)
            if begun is not None and begun.manifest != manifest:
                self._table.drop(namespace, NEXT)
                begun = None
            if begun is None:
                self._table.make(namespace, manifest, NEXT)
        return manifest

    def upsert(self, namespace: str, documents: Sequence[Document]) -> int:
        with self._table.exclusive(namespace):
            chosen = checked_documents(documents, self._build.manifest)
            return taken(chosen, namespace, self._put)

    def _put(self, documents: Sequence[Document]) -> int:
        self._table.put(self._build, documents)
        return self._table.generation(self._namespace)

    def delete(self, namespace: str, document_ids: Iterable[str]) -> int:
        with self._table.exclusive(namespace):
            changes = self._table.take_out(self._build, document_ids)
            return 0 if changes is None else len(changes.deleted)

    def revisions(self, namespace: str, source: str | None = None) -> dict[str, str]:
        return self._table.revisions(self._build, source)

    def held(
        self, namespace: str, document_ids: Iterable[str], *, source: str | None = None
    ) -> dict[str, str]:
        return self._table.held(self._build, document_ids, source)

    @contextmanager
    def near_duplicate_rows(self, namespace: str) -> Iterator[NearDuplicateRows]:
        with self._table.exclusive(namespace), self._table.near_duplicate_rows(self._build) as rows:
            yield rows

    def generation(self, namespace: str, *, timeout_s: float = 10.0) -> int:
        return self._table.generation(namespace)

    def finish(self) -> int:
        """Make the new build the current one and write it to every store; returns the generation.

        After a failure `settle` continues from here.
        """
        with self._table.exclusive(self._namespace):
            return self._finish(self._build)

    @property
    def _build(self) -> Build:
        build = self._table.find(self._namespace, NEXT)
        assert build is not None, "made with the object, and only finish ends it"
        return build


def taken(documents: Sequence[Document], namespace: str, put: Callable[[Sequence[Document]], int]) -> int:
    """The result of `put` for the documents that a server can take; raises PartlyWritten naming the others."""
    refused = {document.document_id: why for document in documents if (why := refusal_reason(document))}
    try:
        generation = put(
            [storable(document) for document in documents if document.document_id not in refused]
        )
    except PartlyWritten as error:
        if not refused:
            raise
        # These documents are in the table, where `settle` finds them.
        refused |= error.failures
        generation = error.generation
    if refused:
        raise PartlyWritten(namespace, refused, generation)
    return generation
