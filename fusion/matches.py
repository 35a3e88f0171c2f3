"""Where the words of the question stand in a hit's title and text."""

from __future__ import annotations

from typing import Any

from fusion.question_terms import QuestionTerms
from fusion.snippets import MAX_TEXT_CHARS, merged
from models.documents import PassageText

MOST = 200
"""Matches of one field."""
LEXICAL = "lexical"


def matches_of(passage: PassageText, terms: QuestionTerms) -> list[dict[str, Any]]:
    """Ranges [start, end) in characters of each field, ascending, without overlap; the text's first 100,000 characters count."""
    return [
        {"field": field, "start": start, "end": end, "kind": LEXICAL}
        for field, text in (("title", passage.title), ("text", passage.text[:MAX_TEXT_CHARS]))
        for start, end in merged([(start, end) for _, start, end in terms.matches(text)])[:MOST]
    ]
