"""What a source answers that knows nothing but how to search."""

from __future__ import annotations

from collections.abc import Sequence

from models.documents import PassageText, Vector


class TextsWithHits:
    """Inherit in a source whose rankings include their texts: most sources cannot return a document by its id, and its text may
    have changed by then."""

    def vectors(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 10.0
    ) -> dict[str, Vector]:
        return {}

    def texts(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 0.5
    ) -> dict[str, PassageText]:
        """Empty: the texts came with the ranking."""
        return {}

    def generation(self, namespace: str, *, timeout_s: float = 10.0) -> int | None:
        """None: the source does not tell when it changes, so no answer that used it is cached."""
        return None

    def warm(self, namespace: str | None = None) -> None:
        return
