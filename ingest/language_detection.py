"""The language of documents: what they declare, and otherwise what py3langid recognises (measured in docs/evidence/measurements.md)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from ingest.raw_documents import RawDocument

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_LEAST_CONFIDENCE = 0.3
"""The least probability of a recognised language.  Code and numbers have less.  Of texts of five words .98 have at least this one,
and .99 of these are recognised rightly."""
_MEASURED_CHARACTERS = 2_000
"""Characters of each document that are looked at."""
_DECLARED_IN = ("language", "lang")
"""The metadata fields in which a document may declare its language.  The readers of files write `language`."""
_NORWEGIAN = frozenset({"nb", "nn"})
_NO_LANGUAGE, _UNSURE = "zxx", "und"


def main_language(documents: Sequence[RawDocument]) -> str | None:
    """ISO 639 code (`no` for both Norwegian ones) of the language that most of the text is in; None if no language is recognised.

    A document's own `language` or `lang` (`it`, `it-IT`) counts more than what is recognised.
    """
    characters: Counter[str] = Counter()
    for document in documents:
        text = document.text[:_MEASURED_CHARACTERS]
        if (language := _declared(document) or _recognised(text)) is not None:
            characters[language] += max(1, len(text))
    if not characters:
        return _recognised("\n".join(document.text[:_MEASURED_CHARACTERS] for document in documents))
    return characters.most_common(1)[0][0]


def _declared(document: RawDocument) -> str | None:
    for name in _DECLARED_IN:
        code = re.split("[-_]", str(document.metadata.get(name, "")).strip().lower())[0]
        if code != _NO_LANGUAGE and (code in _NORWEGIAN or code in _identifier().labels):
            return _one_norwegian(code)
    return None


def _recognised(text: str) -> str | None:
    code, _ = _identifier().classify(text)
    return None if code in (_NO_LANGUAGE, _UNSURE) else _one_norwegian(code)


def _one_norwegian(code: str) -> str:
    return "no" if code in _NORWEGIAN else code


@lru_cache
def _identifier() -> LanguageIdentifier:
    """Returns the model.  Reading it takes half a second, so only a process that makes a namespace reads it."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True, min_confidence=_LEAST_CONFIDENCE)
