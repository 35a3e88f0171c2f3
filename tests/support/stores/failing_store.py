"""An embedded store that fails on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from models.documents import Document
from models.errors import PartlyWritten, ServiceError
from search.embedded.store import EmbeddedStore


class FailingStore(EmbeddedStore):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.failure: ServiceError | None = None
        """Raised by every write."""
        self.refused: dict[str, str] = {}
        """Reasons for refused documents, by id."""
        self.before_write: Callable[[], None] = lambda: None
        self.written: list[list[str]] = []
        """The ids of each batch that was received."""

    def upsert(self, namespace: str, documents: Sequence[Document]) -> int:
        names = [document.document_id for document in documents]
        self.written.append(names)
        self._check()
        generation = super().upsert(
            namespace, [document for document in documents if document.document_id not in self.refused]
        )
        failures = {name: self.refused[name] for name in names if name in self.refused}
        if failures:
            raise PartlyWritten(namespace, failures, generation)
        return generation

    def delete(self, namespace: str, document_ids: Iterable[str]) -> int:
        self._check()
        return super().delete(namespace, document_ids)

    def _check(self) -> None:
        self.before_write()
        if self.failure is not None:
            raise self.failure
