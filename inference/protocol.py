"""What every neural model promises; `tests/contracts/embedder.py` is the suite that each embedder inherits.

Models are loaded in the worker after it started, never at import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from models.documents import Matrix


class Embedder(Protocol):
    """Turns texts into normalised vectors (float32, unit length)."""

    @property
    def fingerprint(self) -> str:
        """Hash of weights, precision, prompts and pooling: equal fingerprints give comparable vectors."""
        ...

    @property
    def dimension(self) -> int: ...

    @property
    def max_pieces(self) -> int:
        """Word pieces of a text that the model reads, special tokens left out; the rest is cut off."""
        ...

    def embed_questions(self, texts: Sequence[str]) -> Matrix:
        """Shape (len(texts), dimension), with the question prompt.  Batched by length, order kept."""
        ...

    def embed_passages(
        self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None
    ) -> Matrix:
        """Shape (len(texts), dimension), with the passage prompt; `progress(n)` after each n texts."""
        ...

    def count_pieces(self, text: str) -> int:
        """Word pieces of the text, special tokens left out, nothing cut off."""
        ...

    def warm(self) -> None:
        """Load the weights and run once."""
        ...


class HypothesisGenerator(Protocol):
    """Writes documents that could answer a question (HyDE, Gao et al. 2022)."""

    name: str

    def imagine(self, texts: Sequence[str], *, timeout_s: float) -> list[list[str]]:
        """Hypothetical documents for each question; raises StageFailure."""
        ...


class Reranker(Protocol):
    """Scores question-passage pairs with a cross-encoder."""

    fingerprint: str

    def score(self, text: str, passages: Sequence[str], *, timeout_s: float) -> list[float | None]:
        """A logit for each passage, None where the time ran out."""
        ...
