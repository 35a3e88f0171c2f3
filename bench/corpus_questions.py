"""Distinct questions about a corpus, made from the words of its texts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from ingest.raw_documents import RawDocument
from models.errors import ServiceError

WORDS = 9
"""About as many as people type, and enough for the texts to differ."""
MOST_OF_A_DOCUMENT = 8
_WORD = re.compile(r"[^\W_]+")


def questions_about(documents: Iterable[RawDocument], count: int) -> list[str]:
    """`count` questions, spread over the corpus and always the same for it; raises ServiceError
    if there are too few."""
    texts: set[str] = set()
    for document in documents:
        words = _WORD.findall(document.text)[: WORDS * MOST_OF_A_DOCUMENT]
        texts |= {" ".join(words[at : at + WORDS]) for at in range(0, len(words) - WORDS + 1, WORDS)}
    shuffled = sorted(texts, key=lambda text: hashlib.sha256(text.encode()).digest())
    if len(shuffled) < count:
        raise ServiceError(
            f"{count} distinct questions wanted, but the corpus has {len(shuffled)}: "
            "measure with fewer, or with more documents"
        )
    return shuffled[:count]
