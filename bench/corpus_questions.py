"""Distinct questions about a corpus: the beginnings of its texts, as somebody might half remember them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from ingest.raw_documents import RawDocument
from models.errors import ServiceError

WORDS = 9
"""About what people type; long enough for the texts to differ."""
_WORD = re.compile(r"[^\W_]+")


class TooFewQuestions(ServiceError):
    """The corpus is too small for so many distinct questions."""


def questions_about(documents: Iterable[RawDocument], count: int) -> list[str]:
    """The same each time for the same corpus, spread over all of it; raises TooFewQuestions."""
    texts: dict[str, str] = {}
    for document in documents:
        words = _WORD.findall(document.text)[:WORDS]
        if len(words) == WORDS:
            texts.setdefault(" ".join(words), document.document_id)
    shuffled = sorted(texts, key=lambda text: hashlib.sha256(texts[text].encode()).digest())
    if len(shuffled) < count:
        raise TooFewQuestions(
            f"{count} distinct questions asked for; the corpus gives {len(shuffled)}; "
            "measure with fewer, or with more documents"
        )
    return shuffled[:count]
