"""The tables of embedders and rerankers, by the name of what runs them, and one model in two precisions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf
from pkgutil import resolve_name
from typing import Any

from inference.protocol import Embedder, Reranker
from models.documents import Matrix
from models.errors import WrongDeclaration

EMBEDDERS = {
    "onnx": "inference.embedders:OnnxEmbedder",
    "sentence_transformers": "inference.embedders:SentenceTransformersEmbedder",
    "endpoint": "inference.embedding_endpoint:EndpointEmbedder",
}
"""Class by name; its module is imported only when its embedder is loaded."""
RERANKERS = {
    "onnx": "inference.rerankers:OnnxReranker",
    "sentence_transformers": "inference.rerankers:CrossEncoderReranker",
    "endpoint": "inference.reranking_endpoint:EndpointReranker",
}


def load_embedder(name: str, *, backend: str, **settings: Any) -> Embedder:
    """The embedder `backend` of the model `name` (a folder, or a name on the hub or of an endpoint); `settings` are those
    of TextEmbedder or EndpointEmbedder.

    Nothing is read before the first use, or `warm()`, which raise ModelMissing, NotConfigured (the backend does not
    support this model) and WrongDeclaration (`max_pieces`).
    """
    made: Embedder = _class("embedder", EMBEDDERS, backend)(name, **settings)
    return made


def load_reranker(name: str, *, backend: str, **settings: Any) -> Reranker:
    """The reranker `backend` of the model `name` (a folder, or a name on the hub or of an endpoint); `settings` are those
    of PairReranker or EndpointReranker.

    Nothing is read before `warm()` or `fingerprint`, which raise ModelMissing and NotConfigured.
    """
    made: Reranker = _class("reranker", RERANKERS, backend)(name, **settings)
    return made


def _class(what: str, table: Mapping[str, str], backend: str) -> Any:
    if backend not in table:
        raise WrongDeclaration(f"no {what} {backend!r}; there are: {', '.join(table)}")
    return resolve_name(table[backend])


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
    def comparable(self) -> Collection[str]:
        return self.passages.comparable

    @property
    def dimension(self) -> int:
        return self.passages.dimension

    @property
    def max_pieces(self) -> int:
        return self.passages.max_pieces

    @property
    def knows_words(self) -> bool:
        return self.passages.knows_words

    def embed_questions(self, texts: Sequence[str], *, timeout_s: float = inf) -> Matrix:
        return self.questions.embed_questions(texts, timeout_s=timeout_s)

    def embed_passages(
        self,
        texts: Sequence[str],
        *,
        progress: Callable[[int], None] | None = None,
        timeout_s: float = inf,
    ) -> Matrix:
        return self.passages.embed_passages(texts, progress=progress, timeout_s=timeout_s)

    def count_pieces(self, text: str) -> int:
        return self.passages.count_pieces(text)

    def warm(self) -> None:
        self.passages.warm()
        if self.questions is not self.passages:
            self.questions.warm()
