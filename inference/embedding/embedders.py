"""The table of embedders, by name."""

from __future__ import annotations

import importlib
from typing import Any

from inference.protocol import Embedder
from models.errors import WrongDeclaration

EMBEDDERS: dict[str, tuple[str, str]] = {
    "onnx": ("inference.embedding.onnx_embedder", "OnnxEmbedder"),
    "sentence_transformers": (
        "inference.embedding.sentence_transformers_embedder",
        "SentenceTransformersEmbedder",
    ),
}
"""Module and class by name; a module is imported only when its embedder is loaded."""


def load_embedder(
    name: str,
    *,
    backend: str,
    threads: int,
    device: str | None = None,
    max_pieces: int | None = None,
    precision: str = "fp32",
) -> Embedder:
    """The embedder `backend` (a key of EMBEDDERS) of the model `name` (a folder, or a name on the hub).

    Nothing is read before the first use, or `warm()`, which raise ModelMissing, NotConfigured (the backend does not
    support this model) and WrongDeclaration (`max_pieces`).  `device` is "cpu", "cuda:0", …; None takes the best one.
    `precision` is `fp32` or `int8`; only `onnx` has `int8`.
    """
    if backend not in EMBEDDERS:
        raise WrongDeclaration(f"no embedder {backend!r}; there are: {', '.join(EMBEDDERS)}")
    module, kind = EMBEDDERS[backend]
    embedder: Any = getattr(importlib.import_module(module), kind)
    made: Embedder = embedder(
        name, threads=threads, device=device, max_pieces=max_pieces, precision=precision
    )
    return made
