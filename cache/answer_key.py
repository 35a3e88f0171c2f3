"""What makes two questions the same: equal keys may share an answer, and never across namespaces."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from typing import Any


def normalised_text(text: str) -> str:
    """Composed characters and single spaces; the case stays, since a model may tell it apart."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def answer_key(
    namespace: str, question: Mapping[str, Any], options: Mapping[str, Any], plan: Mapping[str, Any]
) -> str:
    """Key of one question's answer.

    `question` is its text, variants and hypothetical documents; `options` what the request says of its answer;
    `plan` the resolved values and model fingerprints.  The corpus generation is not part of it: it stands beside
    the stored answer and is compared when read, so that a new generation overwrites instead of piling up.
    """
    same = {**question, "text": normalised_text(str(question.get("text", "")))}
    document = json.dumps([namespace, same, dict(options), dict(plan)], sort_keys=True, separators=(",", ":"))
    return f"answer:{namespace}:{hashlib.sha256(document.encode()).hexdigest()[:40]}"
