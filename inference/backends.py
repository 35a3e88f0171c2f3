"""The tables of embedders and rerankers, by the name of what runs them, and one model in two precisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from pkgutil import resolve_name
from typing import Any, cast

from inference.protocol import Embedder, Reranker
from models.documents import Matrix
from models.errors import WrongDeclaration

EMBEDDERS = {
    "onnx": "inference.embedders:OnnxEmbedder",
    "sentence_transformers": "inference.embedders:SentenceTransformersEmbedder",
    "endpoint": "inference.endpoints.embedding:EndpointEmbedder",
}
"""Class by name; its module is imported only when its embedder is loaded."""
RERANKERS = {
    "onnx": "inference.rerankers:OnnxReranker",
    "sentence_transformers": "inference.rerankers:CrossEncoderReranker",
    "endpoint": "inference.endpoints.reranking:EndpointReranker",
}


def load_embedder(name: str, *, backend: str, **settings: Any) -> Embedder:
    """The embedder `backend` of the model `name` (a folder, or a name on the hub or of an endpoint); `settings` are those
    of TextEmbedder or EndpointEmbedder.

    Nothing is read before the first use, or `warm()`, which raise ModelMissing, NotConfigured (the backend does not
    support this model) and WrongDeclaration (`max_pieces`).
    """
    return cast("Embedder", _made("embedder", EMBEDDERS, backend, name, settings))


def load_reranker(name: str, *, backend: str, **settings: Any) -> Reranker:
    """Like `load_embedder`; `settings` are those of PairReranker or EndpointReranker."""
    return cast("Reranker", _made("reranker", RERANKERS, backend, name, settings))


def _made(what: str, table: Mapping[str, str], backend: str, name: str, settings: Mapping[str, Any]) -> Any:
    if backend not in table:
        raise WrongDeclaration(f"no {what} {backend!r}; there are: {', '.join(table)}")
    return resolve_name(table[backend])(name, **settings)


class TwoPrecisions:
    """One model in two precisions; one object where they are equal.  It embeds questions with `questions`, and is `passages` in
    everything else, also in its fingerprint, with which a namespace was built."""

    def __init__(self, load: Callable[[str], Embedder], *, questions: str, passages: str) -> None:
        """`load` makes the embedder of a precision."""
        loaded = {precision: load(precision) for precision in {questions, passages}}
        self.questions, self.passages = loaded[questions], loaded[passages]

    def __getattr__(self, name: str) -> Any:
        if name == "passages":  # not there yet, as in a copy
            raise AttributeError(name)
        return getattr(self.passages, name)

    def embed_questions(self, texts: Sequence[str], *, timeout_s: float = inf) -> Matrix:
        return self.questions.embed_questions(texts, timeout_s=timeout_s)

    def warm(self) -> None:
        self.passages.warm()
        if self.questions is not self.passages:
            self.questions.warm()
