"""Keys of cached answers: questions with equal keys share an answer."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from typing import Any


def normalised_text(text: str) -> str:
    """The text in NFC with single spaces; case is kept because it matters to some models."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def answer_key(
    namespace: str, question: Mapping[str, Any], options: Mapping[str, Any], plan: Mapping[str, Any]
) -> str:
    """Key of the answer to one question.

    `question`: text, variants and hypothetical documents.  `options`: the request's options for its answer.  `plan`:
    resolved values and model fingerprints.  The corpus generation is not part of the key: it is stored with the answer
    and compared when the answer is read, so that a new generation overwrites the old entry.
    """
    same = {**question, "text": normalised_text(str(question.get("text", "")))}
    document = json.dumps([namespace, same, dict(options), dict(plan)], sort_keys=True, separators=(",", ":"))
    return f"answer:{namespace}:{hashlib.sha256(document.encode()).hexdigest()[:40]}"
