"""The table of rerankers, by name."""

from __future__ import annotations

import importlib
from typing import Any

from inference.protocol import Reranker
from models.errors import WrongDeclaration

RERANKERS: dict[str, tuple[str, str]] = {
    "onnx": ("inference.reranking.onnx_reranker", "OnnxReranker"),
    "sentence_transformers": ("inference.reranking.sentence_transformers_reranker", "CrossEncoderReranker"),
}
"""Module and class by name; a module is imported only when its reranker is loaded."""


def load_reranker(
    name: str, *, backend: str, threads: int, device: str | None = None, max_pieces: int | None = None
) -> Reranker:
    """The reranker `backend` (a key of RERANKERS) of the model `name` (a folder, or a name on the hub).

    Nothing is read before `warm()` or `fingerprint`, which raise ModelMissing and NotConfigured.  Raises
    WrongDeclaration for an unknown backend or device.
    """
    if backend not in RERANKERS:
        raise WrongDeclaration(f"no reranker {backend!r}; there are: {', '.join(RERANKERS)}")
    module, kind = RERANKERS[backend]
    reranker: Any = getattr(importlib.import_module(module), kind)
    made: Reranker = reranker(name, threads=threads, device=device, max_pieces=max_pieces)
    return made
