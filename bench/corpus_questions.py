"""Distinct questions about a corpus, made from the first words of its texts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from ingest.raw_documents import RawDocument
from models.errors import ServiceError

WORDS = 9
"""About as many as people type, and enough for the texts to differ."""
_WORD = re.compile(r"[^\W_]+")


class TooFewQuestions(ServiceError):
    """The corpus does not have enough distinct questions."""


def questions_about(documents: Iterable[RawDocument], count: int) -> list[str]:
    """`count` questions, spread over the corpus and always the same for it; raises TooFewQuestions."""
    texts: dict[str, str] = {}
    for document in documents:
        words = _WORD.findall(document.text)[:WORDS]
        if len(words) == WORDS:
            texts.setdefault(" ".join(words), document.document_id)
    shuffled = sorted(texts, key=lambda text: hashlib.sha256(texts[text].encode()).digest())
    if len(shuffled) < count:
        raise TooFewQuestions(
            f"{count} distinct questions wanted, but the corpus has {len(shuffled)}: "
            "measure with fewer, or with more documents"
        )
    return shuffled[:count]
