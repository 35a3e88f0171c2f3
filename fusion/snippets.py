"""The part of a passage that answers the question best by its words, with highlights."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from fusion.characters import character_start
from fusion.question_terms import QuestionTerms

MAX_TEXT_CHARS = 100_000
"""A snippet is cut from the first characters of a longer text."""
MAX_SENTENCES = 1_000
"""Only this many sentences with a match are compared."""
ELLIPSIS = "…"

# A sentence mark with closing quotes and brackets before white space; a wide sentence mark; the end of a line.
_SENTENCE_END = re.compile(r"[.!?…][\"'\u201d\u2019»)\]]*\s+|[\u3002\uff01\uff1f]|\n\s*")
_CELL_BORDERS = ("|", "\t")

# Chosen on questions of SQuAD-it outside of the 500 that the measurements report.
_BEFORE, _AFTER = 60, 90
"""Characters before the first and after the last match of a sentence that count whole.  A snippet that is shorter than their
sum lowers both in proportion, so that it shows the match."""
_FURTHER = 0.3
"""What the sentence's other characters count."""
_BEST_SENTENCE = 1.5
_ANOTHER_PASSAGE = 1.1
"""Another passage than the first must be better by this factor."""
_CLEARLY = 1.000_001
"""More than sums of floats differ by chance."""


Matches = Sequence[tuple[str, int, int]]
"""(term, start, end), in order."""


@dataclass(frozen=True, slots=True)
class Snippet:
    text: str
    highlights: tuple[tuple[int, int], ...]
    """[start, end) in characters of `text`, ascending, without overlap."""


class _Sentence(NamedTuple):
    """A sentence with at least one match."""

    start: int
    end: int
    first: int
    last: int
    """Where its first match starts and its last one ends."""
    terms: frozenset[str]


def _sentences(text: str, matches: Matches) -> list[_Sentence]:
    found: list[_Sentence] = []
    at = start = 0
    if not matches:
        return found
    for end in [*(mark.end() for mark in _SENTENCE_END.finditer(text)), len(text)]:
        begun = at
        while at < len(matches) and matches[at][1] < end:
            at += 1
        if at > begun:
            inside = matches[begun:at]
            found.append(
                _Sentence(start, end, inside[0][1], inside[-1][2], frozenset([m[0] for m in inside]))
            )
        if at == len(matches) or len(found) == MAX_SENTENCES:
            break
        start = end
    return found


class _Worth:
    """The worth of any part of a text: a sum over its characters."""

    def __init__(self, text: str, sentences: Sequence[tuple[_Sentence, float]], longest: int) -> None:
        share = min(1.0, longest / (_BEFORE + _AFTER))
        beside = round(_BEFORE * share), round(_AFTER * share)
        self._starts, self._each, self._before = [0], [0.0], [0.0]
        for one, worth in sentences:
            around = worth if _has_cells(text[one.start : one.end]) else worth * _FURTHER
            self._add(one.start, around)
            self._add(max(one.start, one.first - beside[0]), worth)
            self._add(min(one.end, one.last + beside[1]), around)
            self._add(one.end, 0.0)

    def _add(self, start: int, each: float) -> None:
        self._before.append(self._before[-1] + (start - self._starts[-1]) * self._each[-1])
        self._starts.append(start)
        self._each.append(each)

    def until(self, end: int) -> float:
        at = bisect_right(self._starts, end) - 1
        return self._before[at] + (end - self._starts[at]) * self._each[at]

    def best_start(self, longest: int) -> tuple[float, int]:
        """The worth of the best `longest` characters, and where they start: where a part of the sum starts or ends."""
        best, start = self.until(longest), 0
        for at, before in zip(self._starts, self._before, strict=True):
            first = max(0, at - longest)
            for place, worth in (
                (at, self.until(at + longest) - before),
                (first, before - self.until(first)),
            ):
                if worth > best * _CLEARLY:
                    best, start = worth, place
        return best, start


def _has_cells(line: str) -> bool:
    """Whether it is a row of a table."""
    line = line.strip()
    return any(border in line for border in _CELL_BORDERS)


def _line(text: str, at: int) -> tuple[int, int]:
    end = text.find("\n", at)
    return text.rfind("\n", 0, at) + 1, len(text) if end < 0 else end


def _cut_start(text: str, at: int, end: int) -> int:
    """The next place from `at` on where a row, a word or at least a character starts."""
    first, last = _line(text, at)
    if first < at < last and _has_cells(text[first:last]):
        if last < end:
            return last
        borders = [place for border in _CELL_BORDERS if (place := text.find(border, at, end)) > 0]
        return min(borders, default=at)
    if at == 0 or text[at - 1].isspace():
        return at
    space = text.find(" ", at, at + (end - at) // 4)
    return space + 1 if space > 0 else character_start(text, at)


def _cut_end(text: str, start: int, at: int) -> int:
    """The last place up to `at` where a row, a word or at least a character ends."""
    first, last = _line(text, at)
    if first < at < last and _has_cells(text[first:last]):
        borders = [text.rfind(border, start + 1, at) for border in _CELL_BORDERS]
        return first if first > start else max(*borders, start + 1) if max(borders) > 0 else at
    if at >= len(text) or text[at - 1].isspace() or text[at].isspace():
        return at
    space = text.rfind(" ", start + 3 * (at - start) // 4, at)
    return space if space > start else max(start + 1, character_start(text, at))


def merged(spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Ranges without overlap, of ranges in the order of their starts."""
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def _place(texts: Sequence[str], matches: Sequence[Matches], longest: int) -> tuple[int, int]:
    """Which text has the best part of at most `longest` characters, and where the part starts."""
    read = [_sentences(text, found) for text, found in zip(texts, matches, strict=True)]
    among = Counter(term for sentences in read for one in sentences for term in one.terms)

    def worth(one: _Sentence) -> float:
        return sum([1 / among[term] for term in one.terms]) ** 2 / sqrt(one.end - one.start)

    worths = [[worth(one) for one in sentences] for sentences in read]
    most = max((max(each) for each in worths if each), default=0.0)
    best, chosen, start = 0.0, 0, 0
    for place, (text, sentences, each) in enumerate(zip(texts, read, worths, strict=True)):
        weighed = [
            (one, value * (_BEST_SENTENCE if value == most else 1.0))
            for one, value in zip(sentences, each, strict=True)
        ]
        value, at = _Worth(text, weighed, longest).best_start(longest)
        if value > best * (_ANOTHER_PASSAGE if place else 1.0):
            best, chosen, start = value, place, at
    return chosen, start


def best_snippet(texts: Sequence[str], terms: QuestionTerms, max_chars: int) -> tuple[int, Snippet]:
    """The part of one of the texts, at most `max_chars` characters, whose sentences match most of the question.

    Also says which text that is; the first one needs least for it.  White space becomes single spaces.  An ellipsis
    (included in the limit) marks where text was left out.  Without a match, the snippet is the start of the first text.
    """
    longest = max(1, max_chars - 2 * len(ELLIPSIS))
    read = [text[:MAX_TEXT_CHARS] for text in texts]
    matches = [terms.matches(text) for text in read]
    chosen, start = 0, 0
    if len(texts) > 1 or len(texts[0].strip()) > max_chars:
        chosen, start = _place(read, matches, longest)
    whole, text = texts[chosen], read[chosen]
    end = len(text)
    if len(whole.strip()) <= max_chars:
        start = 0
    else:
        end = min(end, start + longest)
        start = _cut_start(text, start, end)
        end = _cut_end(text, start, min(end, start + longest))
    part = text[start:end]
    shown = " ".join(part.split())
    before = ELLIPSIS if text[:start].strip() else ""
    after = ELLIPSIS if text[end:].strip() or whole[MAX_TEXT_CHARS:].strip() else ""
    if shown == part.strip():
        moved = len(before) - start - (len(part) - len(part.lstrip()))
        spans = [
            (first + moved, last + moved)
            for _, first, last in matches[chosen]
            if start <= first < last <= end
        ]
    else:
        spans = [(len(before) + first, len(before) + last) for _, first, last in terms.matches(shown)]
    return chosen, Snippet(before + shown + after, merged(spans))
