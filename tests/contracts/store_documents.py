"""The documents of the store contracts: small ones, with vectors along the axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from models.documents import Document, Manifest, Matrix, Passage, Vector

MANIFEST = Manifest(
    splitter="by hand", language="en", analyser="chorale-lexical-2", embedder="by hand", dimension=4
)


def unit(*values: float) -> Vector:
    vector = np.array(values, np.float32)
    return vector / np.linalg.norm(vector)


def questions(*vectors: Vector) -> Matrix:
    return np.stack(vectors)


EAST, NORTH, UP, LATER = (unit(*row) for row in np.eye(4))


def document(
    name: str,
    *texts: str,
    vectors: tuple[Vector, ...] = (),
    title: str = "",
    source: str = "docs",
    metadata: Mapping[str, Any] | None = None,
    revision: str = "1",
) -> Document:
    passages = tuple(
        Passage(f"{name}#{i}", i, text, vector=vectors[i] if vectors else EAST, end=len(text))
        for i, text in enumerate(texts)
    )
    return Document(name, source, title, passages, metadata or {}, f"hash of {name}", None, revision)
