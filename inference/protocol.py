"""What every neural model promises; each embedder is tested by `tests/contracts/embedder.py`.

Models are loaded after the worker has started, never at import.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

from models.declarations.extensions import GenerationResult
from models.documents import Matrix


class Embedder(Protocol):
    """Turns texts into normalised vectors (float32, unit length)."""

    @property
    def fingerprint(self) -> str:
        """Hash of weights, precision, prompts and pooling; equal fingerprints mean comparable vectors."""
        ...

    @property
    def comparable(self) -> Collection[str]:
        """The fingerprints of the vectors that its vectors can be compared with: those of the same model in any precision."""
        ...

    @property
    def dimension(self) -> int: ...

    @property
    def max_pieces(self) -> int:
        """Maximum word pieces of a text, without special tokens; longer texts are cut."""
        ...

    @property
    def knows_words(self) -> bool:
        """Whether `count_pieces` counts the model's own word pieces; else it estimates them."""
        ...

    def embed_questions(self, texts: Sequence[str], *, timeout_s: float = inf) -> Matrix:
        """Vectors of shape (len(texts), dimension), computed with the question prompt.

        An endpoint answers within `timeout_s` seconds or raises StageFailure; local models ignore the limit.
        """
        ...

    def embed_passages(
        self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None, timeout_s: float = inf
    ) -> Matrix:
        """The same with the passage prompt; calls `progress(n)` after n texts."""
        ...

    def count_pieces(self, text: str) -> int:
        """Number of word pieces of the whole text, without special tokens."""
        ...

    def warm(self) -> None:
        """Load the weights and run the model once."""
        ...


class HypothesisGenerator(Protocol):
    """Writes documents that could answer a question (HyDE, Gao et al. 2022)."""

    def imagine(self, texts: Sequence[str], *, timeout_s: float) -> Sequence[GenerationResult]:
        """Hypothetical documents for each question, at least one, or why there is none.  Raises nothing."""
        ...


@dataclass(frozen=True, slots=True)
class PairScores:
    """The scores that a reranker computed within its time."""

    logits: tuple[float | None, ...]
    """One for each pair, in order; None: the pair was not chosen, or not reached."""
    chosen: int
    """Number of pairs, counted from the first, that were expected to fit the time."""
    has_begun: bool = True
    """False: the model was still busy with an earlier request."""


class Reranker(Protocol):
    """Scores question-passage pairs with a cross-encoder."""

    @property
    def fingerprint(self) -> str:
        """Hash of weights, tokenizer and length; equal fingerprints mean equal scores.

        Describes the loaded model, else the files on this machine.  Raises ModelMissing, NotConfigured.
        """
        ...

    def most(self, limit_s: float) -> int:
        """Number of pairs that fit the limit if all are short, at least 1; more texts need not be fetched."""
        ...

    def score(self, pairs: Sequence[tuple[str, str]], *, limit_s: float) -> PairScores:
        """Score (question, passage) pairs, most important first; returns within `limit_s` seconds even if the model hangs.

        Raises StageFailure: ModelMissing before `warm`, InvalidAnswer if a score is not a number.
        """
        ...

    def fetch(self) -> None:
        """Download the files if they are not on this machine; no time limit.  Raises ModelMissing, NotConfigured."""
        ...

    def warm(self) -> None:
        """Load the weights and measure the speed; raises only ModelMissing and NotConfigured."""
        ...
