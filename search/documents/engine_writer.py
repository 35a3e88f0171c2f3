"""Writing to one store: retries what may pass, and finds the single documents that the store refuses."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from structlog import get_logger

from models.documents import Document
from models.errors import (
    BadIndex,
    ManifestMismatch,
    NotConfigured,
    PartlyWritten,
    StageFailure,
    StoreTimeout,
    StoreUnavailable,
    Unauthorised,
    WriterBusy,
)
from search.documents.document_table import Change, StoreResult
from search.protocol import Engine

log = get_logger("chorale.index")

PAUSES_S = (0.2, 1.0)
"""Waits before the second and third attempt; stores of servers also retry within each attempt."""
_AWAY_S = 10.0
"""A store that does not answer is left out for this time; otherwise each batch would wait for it."""

_PASSING = (StoreUnavailable, StoreTimeout, WriterBusy)
_OF_ALL = (*_PASSING, Unauthorised, NotConfigured, BadIndex, ManifestMismatch)
"""Failures that no single document causes."""


class EngineWriter:
    """One of several stores; for one thread at a time."""

    def __init__(self, name: str, store: Engine) -> None:
        self.name = name
        self.store = store
        self._away: tuple[float, str] | None = None
        self._is_missing = False

    @property
    def is_away(self) -> bool:
        return self._away is not None and time.monotonic() < self._away[0]

    def ask_again(self) -> None:
        """Forget that the store did not answer lately."""
        self._away = None

    def write(self, namespace: str, changes: Sequence[Change]) -> StoreResult:
        """Apply the changes, each whole or not at all, idempotently; never raises the store's failure."""
        self._is_missing = False
        documents = [change.document for change in changes if change.document is not None]
        deleted = [change.document_id for change in changes if change.document is None]
        failures: dict[str, str] = {}
        if documents:
            failures |= self._upsert(namespace, documents)
        if deleted:
            try:
                failures |= self._attempt(namespace, deleted, lambda: self.store.delete(namespace, deleted))
            except StageFailure as error:
                failures |= dict.fromkeys(deleted, str(error))
        return StoreResult(changes, failures, self._is_missing)

    def _upsert(self, namespace: str, documents: Sequence[Document]) -> dict[str, str]:
        names = [document.document_id for document in documents]
        try:
            return self._attempt(namespace, names, lambda: self.store.upsert(namespace, documents))
        except StageFailure as error:
            # One document of several caused it: halve the batch to find which.
            if len(documents) == 1:
                return {names[0]: str(error)}
            half = len(documents) // 2
            return self._upsert(namespace, documents[:half]) | self._upsert(namespace, documents[half:])

    def _attempt(self, namespace: str, names: Sequence[str], call: Callable[[], object]) -> dict[str, str]:
        """The reason for each document that failed; raises a StageFailure that a single document may have caused."""
        if self.is_away and self._away is not None:
            return dict.fromkeys(names, self._away[1])
        for pause_s in (*PAUSES_S, None):
            try:
                call()
                return {}
            except PartlyWritten as error:
                return {name: why for name, why in error.failures.items() if name in set(names)}
            except _OF_ALL as error:
                why = str(error)
                self._is_missing = isinstance(error, BadIndex)
                if not isinstance(error, _PASSING):
                    break
                if pause_s is not None:
                    time.sleep(pause_s)
                else:
                    self._away = (time.monotonic() + _AWAY_S, why)
        log.error("a store was not written", store=self.name, namespace=namespace, why=why[:500])
        return dict.fromkeys(names, why)
