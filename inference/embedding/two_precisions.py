"""One model in two precisions: questions in one, passages in the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from inference.protocol import Embedder
from models.documents import Matrix


class TwoPrecisions:
    """An `Embedder`; `questions` and `passages` are its sides, one object where the precisions are equal."""

    def __init__(self, load: Callable[[str], Embedder], *, questions: str, passages: str) -> None:
        """`load` makes the embedder of a precision."""
        loaded = {precision: load(precision) for precision in {questions, passages}}
        self.questions, self.passages = loaded[questions], loaded[passages]

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the passages' model, with which a namespace was built."""
        return self.passages.fingerprint

    @property
    def dimension(self) -> int:
        return self.passages.dimension

    @property
    def max_pieces(self) -> int:
        return self.passages.max_pieces

    def embed_questions(self, texts: Sequence[str]) -> Matrix:
        return self.questions.embed_questions(texts)

    def embed_passages(
        self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None
    ) -> Matrix:
        return self.passages.embed_passages(texts, progress=progress)

    def count_pieces(self, text: str) -> int:
        return self.passages.count_pieces(text)

    def warm(self) -> None:
        self.passages.warm()
        if self.questions is not self.passages:
            self.questions.warm()
