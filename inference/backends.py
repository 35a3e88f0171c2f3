"""The tables of embedders and rerankers, by the name of the library that runs them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from inference.protocol import Embedder, Reranker
from models.errors import WrongDeclaration

EMBEDDERS: dict[str, tuple[str, str]] = {
    "onnx": ("inference.embedding.onnx_embedder", "OnnxEmbedder"),
    "sentence_transformers": (
        "inference.embedding.sentence_transformers_embedder",
        "SentenceTransformersEmbedder",
    ),
}
"""Module and class by name; a module is imported only when its embedder is loaded."""
RERANKERS: dict[str, tuple[str, str]] = {
    "onnx": ("inference.reranking.onnx_reranker", "OnnxReranker"),
    "sentence_transformers": ("inference.reranking.sentence_transformers_reranker", "CrossEncoderReranker"),
}


def load_embedder(name: str, *, backend: str, **settings: Any) -> Embedder:
    """The embedder `backend` of the model `name` (a folder, or a name on the hub); `settings` are those of TextEmbedder.

    Nothing is read before the first use, or `warm()`, which raise ModelMissing, NotConfigured (the backend does not
    support this model) and WrongDeclaration (`max_pieces`).
    """
    made: Embedder = _found("embedder", EMBEDDERS, backend)(name, **settings)
    return made


def load_reranker(name: str, *, backend: str, **settings: Any) -> Reranker:
    """The reranker `backend` of the model `name` (a folder, or a name on the hub); `settings` are those of PairReranker.

    Nothing is read before `warm()` or `fingerprint`, which raise ModelMissing and NotConfigured.
    """
    made: Reranker = _found("reranker", RERANKERS, backend)(name, **settings)
    return made


def _found(what: str, table: Mapping[str, tuple[str, str]], backend: str) -> Any:
    if backend not in table:
        raise WrongDeclaration(f"no {what} {backend!r}; there are: {', '.join(table)}")
    module, kind = table[backend]
    return getattr(importlib.import_module(module), kind)
