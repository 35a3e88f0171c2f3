"""Writing to one store: retries what may pass, and finds the single documents that the store refuses."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from models.documents import Document
from models.errors import (
    BadIndex,
    ManifestMismatch,
    NotConfigured,
    PartlyWritten,
    ServiceError,
    StageFailure,
    StoreTimeout,
    StoreUnavailable,
    Unauthorised,
    WriterBusy,
)
from models.retries import pauses, retried
from search.documents.document_table import Changes
from search.protocol import Engine, Index

PAUSES_S = (0.2, 1.0)
"""Waits before the second and third attempt; stores of servers also retry within each attempt."""
_AWAY_S = 10.0
"""A store that does not answer is left out for this time; otherwise each batch would wait for it."""

_TRANSIENT = (StoreUnavailable, StoreTimeout, WriterBusy)
_STORE_FAILURES = (*_TRANSIENT, Unauthorised, NotConfigured, BadIndex, ManifestMismatch)
"""Failures that no single document causes."""


class EngineWriter:
    """One store; for one thread at a time."""

    def __init__(self, name: str, store: Engine) -> None:
        self.name = name
        self.store = store
        self.failure: ServiceError | None = None
        """Why the last changes could not be written, whatever their documents."""
        self._away_until_s = 0.0

    @property
    def is_away(self) -> bool:
        return self.failure is not None and time.monotonic() < self._away_until_s

    def retry_now(self) -> None:
        """Forget that the store did not answer lately."""
        self._away_until_s = 0.0

    def write(self, index: Index, changes: Changes) -> dict[str, str]:
        """Apply the changes, each whole or not at all, idempotently; returns the reasons for refused documents, by id.

        Raises a failure that no single document causes: then the store may have applied some of them.
        """
        if self.failure is not None and self.is_away:
            raise self.failure
        try:
            refused = self._upsert(index, changes.documents) if changes.documents else {}
            if changes.deleted:
                try:
                    refused |= self._attempt(lambda: self.store.write(index, (), changes.deleted))
                except _STORE_FAILURES:
                    raise
                except StageFailure as error:
                    refused |= dict.fromkeys(changes.deleted, str(error))
        except _STORE_FAILURES as error:
            self.failure = error
            raise
        self.failure = None
        return refused

    def _upsert(self, index: Index, documents: Sequence[Document]) -> dict[str, str]:
        try:
            return self._attempt(lambda: self.store.write(index, documents, ()))
        except _STORE_FAILURES:
            raise
        except StageFailure as error:
            # One document of several caused it: halve the batch to find which.
            if len(documents) == 1:
                return {documents[0].document_id: str(error)}
            half = len(documents) // 2
            return self._upsert(index, documents[:half]) | self._upsert(index, documents[half:])

    def _attempt(self, call: Callable[[], object]) -> dict[str, str]:
        try:
            retried(call, *_TRANSIENT, pause_s=pauses(*PAUSES_S))
        except PartlyWritten as error:
            return dict(error.failures)
        except _TRANSIENT:
            self._away_until_s = time.monotonic() + _AWAY_S
            raise
        return {}
