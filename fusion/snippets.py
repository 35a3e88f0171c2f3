"""The part of a passage that matches the question best, with highlights."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fusion.question_terms import QuestionTerms

MAX_TEXT_CHARS = 100_000
"""A snippet is cut from the first characters of a longer text."""
ELLIPSIS = "…"

# A sentence mark with closing quotes and brackets before white space; a wide sentence mark; the end of a line.
_SENTENCE_END = re.compile(r"[.!?…][\"'\u201d\u2019»)\]]*\s+|[\u3002\uff01\uff1f]|\n\s*")
_JOINERS = "\u200d\ufe0e\ufe0f"


@dataclass(frozen=True, slots=True)
class Snippet:
    text: str
    highlights: tuple[tuple[int, int], ...]
    """[start, end) in characters of `text`, ascending, without overlap."""


def _inside_character(text: str, at: int) -> bool:
    """Whether a cut before `text[at]` would separate a letter from its accents or an emoji from its joiners."""
    char = text[at]
    return bool(unicodedata.combining(char)) or char in _JOINERS or text[at - 1] == _JOINERS[0]


def _cut(text: str, start: int, end: int) -> int:
    """Where to cut `text[start:end]`: at its last space, else between two characters."""
    space = text.rfind(" ", start + 1, end)
    if space > start:
        return space + 1
    at = end
    while at > max(start + 1, end - 16) and _inside_character(text, at):
        at -= 1
    return at if at > start + 1 else end


def _pieces(text: str, longest: int) -> list[tuple[int, int]]:
    """The sentences of the text as (start, end); long ones are split into parts of at most half of `longest`."""
    half = max(1, longest // 2)
    pieces: list[tuple[int, int]] = []
    start = 0
    for end in [*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]:
        while end - start > longest:
            part = _cut(text, start, start + half)
            pieces.append((start, part))
            start = part
        if end > start:
            pieces.append((start, end))
        start = end
    return pieces


def _best_window(
    pieces: Sequence[tuple[int, int]], matches: Sequence[tuple[str, int, int]], longest: int
) -> tuple[int, int]:
    """The neighbouring pieces, together at most `longest` characters, that cover most of the terms.

    A term that is frequent in the text weighs less.  Among equal windows the one with more matches wins, then the first.
    Both ends of the window only move forward, so the time is linear in pieces and matches.
    """
    frequency = Counter(term for term, _, _ in matches)
    inside: Counter[str] = Counter()
    weight, best_rank, best = 0.0, (-1.0, 0), pieces[0]
    first = first_match = next_match = 0
    for start, end in pieces:
        while next_match < len(matches) and matches[next_match][2] <= end:
            term = matches[next_match][0]
            inside[term] += 1
            if inside[term] == 1:
                weight += 1 / frequency[term] ** 0.5
            next_match += 1
        while pieces[first][0] < start and end - pieces[first][0] > longest:
            first += 1
            while first_match < next_match and matches[first_match][1] < pieces[first][0]:
                term = matches[first_match][0]
                inside[term] -= 1
                if inside[term] == 0:
                    weight -= 1 / frequency[term] ** 0.5
                first_match += 1
        rank = (round(weight, 9), next_match - first_match)
        if rank > best_rank:
            best_rank, best = rank, (pieces[first][0], end)
        elif best[0] == pieces[first][0] and rank == best_rank:
            best = (best[0], end)
    return best


def _merged(spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def best_snippet(text: str, terms: QuestionTerms, max_chars: int) -> Snippet:
    """The neighbouring sentences, together at most `max_chars` characters, that match most of the question.

    White space becomes single spaces.  An ellipsis (included in the limit) marks where text was left out.  Without a
    match, the snippet is the start of the text.
    """
    whole = text
    text = text[:MAX_TEXT_CHARS]
    if len(whole.strip()) <= max_chars:
        start, end = 0, len(text)
    else:
        longest = max(1, max_chars - 2 * len(ELLIPSIS))
        start, end = _best_window(_pieces(text, longest), terms.matches(text), longest)
    shown = " ".join(text[start:end].split())
    before = ELLIPSIS if text[:start].strip() else ""
    after = ELLIPSIS if text[end:].strip() or whole[MAX_TEXT_CHARS:].strip() else ""
    at = len(before)
    highlights = _merged([(at + start, at + end) for _, start, end in terms.matches(shown)])
    return Snippet(before + shown + after, highlights)
