"""What every neural model promises; `tests/contracts/embedder.py` is the suite that each embedder inherits.

Models are loaded in the worker after it started, never at import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from models.documents import Matrix
from models.errors import StageFailure
from models.written_texts import Written


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

    def imagine(self, texts: Sequence[str], *, timeout_s: float) -> Sequence[Written]:
        """Hypothetical documents for each question, at least one, or why there is none.  Raises nothing."""
        ...


class QueryExpander(Protocol):
    """Rewrites a question."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of `keyword`, `semantic`, `entity`: what it writes."""
        ...

    def expand(self, texts: Sequence[str], *, timeout_s: float) -> list[tuple[str, ...] | StageFailure]:
        """For each question one text a kind, `""` where there is none, or why it failed.  Raises nothing."""
        ...


@dataclass(frozen=True, slots=True)
class PairScores:
    """What a reranker made of some pairs within its time."""

    logits: tuple[float | None, ...]
    """Of each pair, in order; None: not reached, or not chosen."""
    chosen: int
    """So many pairs, from the first on, seemed to fit the time before it began."""
    has_begun: bool = True
    """False: the model was still at work for an earlier request."""


class Reranker(Protocol):
    """Scores question-passage pairs with a cross-encoder."""

    @property
    def fingerprint(self) -> str:
        """Hash of weights, tokenizer and length: equal fingerprints give equal scores.

        Of what is loaded, or else of what is on this machine.  Raises ModelMissing, NotConfigured.
        """
        ...

    def most(self, limit_s: float) -> int:
        """As many pairs as would fit if all were short: of more no text is worth fetching.  At least 1."""
        ...

    def score(self, pairs: Sequence[tuple[str, str]], *, limit_s: float) -> PairScores:
        """Scores of (question, passage), most wanted first; back within `limit_s` seconds whatever the model does.

        Raises StageFailure: ModelMissing before `warm`, InvalidAnswer for what is no number.
        """
        ...

    def fetch(self) -> None:
        """Bring the files onto this machine if they are not there, for as long as the network takes.

        Raises ModelMissing, NotConfigured.
        """
        ...

    def warm(self) -> None:
        """Load the weights and measure their speed; raises ModelMissing, NotConfigured and nothing else."""
        ...
