"""An embedded store that fails on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from models.documents import Document
from models.errors import PartlyWritten, ServiceError
from search.engines.embedded.store import EmbeddedStore
from search.protocol import Index


class FailingStore(EmbeddedStore):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.failure: ServiceError | None = None
        """Raised by every write."""
        self.refused: dict[str, str] = {}
        """Reasons for refused documents, by id."""
        self.before_write: Callable[[], None] = lambda: None
        self.written: list[list[str]] = []
        """The ids of each batch of documents that was received."""

    def write(self, index: Index, documents: Sequence[Document], deleted: Sequence[str]) -> None:
        names = [document.document_id for document in documents]
        if names:
            self.written.append(names)
        self.before_write()
        if self.failure is not None:
            raise self.failure
        accepted = [document for document in documents if document.document_id not in self.refused]
        super().write(index, accepted, deleted)
        if failures := {name: self.refused[name] for name in names if name in self.refused}:
            raise PartlyWritten(index.namespace, failures)
