"""The part of a passage that answers the question best by its words, with highlights, and all matches of a hit."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

from fusion.question_terms import QuestionTerms
from models.documents import PassageText

_JOINER = "\u200d"
_MOST = 32
"""Code points of one character; longer ones are cut."""


def _is_flag_half(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _jamo(char: str) -> int:
    """The part of a Korean syllable, of which none comes before a smaller one: 1 to 3; else 0."""
    return bisect_right((0x1100, 0x1160, 0x11A8), ord(char)) if "\u1100" <= char <= "\u11ff" else 0


def _joins(before: str, char: str) -> bool:
    if before == _JOINER or char == _JOINER:
        return True
    if unicodedata.category(char)[0] == "M" or "\U0001f3fb" <= char <= "\U0001f3ff":
        return True
    # A virama (combining class 9) joins two consonants.
    if unicodedata.combining(before) == 9:
        return unicodedata.category(char) == "Lo"
    return 0 < _jamo(before) <= _jamo(char) or "\U000e0020" <= char <= "\U000e007f"


def character_start(text: str, at: int) -> int:
    """`at`, or where the character starts that a cut before `text[at]` would separate."""
    for start in range(at, max(0, at - _MOST), -1):
        if start >= len(text):
            return start
        if _is_flag_half(text[start]):
            halves = 0
            while start - halves > 0 and _is_flag_half(text[start - halves - 1]):
                halves += 1
            return start - halves % 2
        if not _joins(text[start - 1], text[start]):
            return start
    return at if at >= _MOST else 0


MAX_TEXT_CHARS = 100_000
"""A snippet is cut from the first characters of a longer text."""
MAX_SENTENCES = 1_000
"""Only this many sentences with a match are compared."""
ELLIPSIS = "…"

# A sentence mark with closing quotes and brackets before white space; a wide sentence mark; the end of a line.
_SENTENCE_END = re.compile(r"[.!?…][\"'\u201d\u2019»)\]]*\s+|[\u3002\uff01\uff1f]|\n\s*")
_CELL_BORDERS = ("|", "\t")
_MARKDOWN_ROW = re.compile(r"\s*\|\s+(.*?)(?:\s+\|)?\s*")
_BELOW_HEADER = re.compile(r"(?=.*\|)(?=.*-)[|:\s-]+")
"""The line of a Markdown table that separates its header: `|---|---|`."""

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
    sentences: list[_Sentence] = []
    at = start = 0
    if not matches:
        return sentences
    for end in [*(mark.end() for mark in _SENTENCE_END.finditer(text)), len(text)]:
        begun = at
        while at < len(matches) and matches[at][1] < end:
            at += 1
        if at > begun:
            inside = matches[begun:at]
            sentences.append(
                _Sentence(start, end, inside[0][1], inside[-1][2], frozenset([m[0] for m in inside]))
            )
        if at == len(matches) or len(sentences) == MAX_SENTENCES:
            break
        start = end
    return sentences


class _PartScores:
    """The score of any part of a text: a sum over its characters."""

    def __init__(self, text: str, sentences: Sequence[tuple[_Sentence, float]], longest: int) -> None:
        share = min(1.0, longest / (_BEFORE + _AFTER))
        beside = round(_BEFORE * share), round(_AFTER * share)
        self._starts, self._each, self._before = [0], [0.0], [0.0]
        for sentence, score in sentences:
            around = score if _has_cells(text[sentence.start : sentence.end]) else score * _FURTHER
            self._add(sentence.start, around)
            self._add(max(sentence.start, sentence.first - beside[0]), score)
            self._add(min(sentence.end, sentence.last + beside[1]), around)
            self._add(sentence.end, 0.0)

    def _add(self, start: int, each: float) -> None:
        self._before.append(self._before[-1] + (start - self._starts[-1]) * self._each[-1])
        self._starts.append(start)
        self._each.append(each)

    def until(self, end: int) -> float:
        at = bisect_right(self._starts, end) - 1
        return self._before[at] + (end - self._starts[at]) * self._each[at]

    def best_start(self, longest: int) -> tuple[float, int]:
        """The score of the best `longest` characters, and where they start: where a part of the sum starts or ends."""
        best, start = self.until(longest), 0
        for at, before in zip(self._starts, self._before, strict=True):
            first = max(0, at - longest)
            for place, score in (
                (at, self.until(at + longest) - before),
                (first, before - self.until(first)),
            ):
                if score > best * _CLEARLY:
                    best, start = score, place
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


def without_overlap(spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Ranges without overlap, of ranges in the order of their starts."""
    without_overlap: list[tuple[int, int]] = []
    for start, end in spans:
        if without_overlap and start < without_overlap[-1][1]:
            without_overlap[-1] = (without_overlap[-1][0], max(end, without_overlap[-1][1]))
        else:
            without_overlap.append((start, end))
    return tuple(without_overlap)


def _place(texts: Sequence[str], matches: Sequence[Matches], longest: int) -> tuple[int, int]:
    """Which text has the best part of at most `longest` characters, and where the part starts."""
    read = [_sentences(text, text_matches) for text, text_matches in zip(texts, matches, strict=True)]
    among = Counter(term for sentences in read for sentence in sentences for term in sentence.terms)

    def score(sentence: _Sentence) -> float:
        return sum([1 / among[term] for term in sentence.terms]) ** 2 / sqrt(sentence.end - sentence.start)

    scores = [[score(sentence) for sentence in sentences] for sentences in read]
    most = max((max(each) for each in scores if each), default=0.0)
    best, chosen, start = 0.0, 0, 0
    for place, (text, sentences, each) in enumerate(zip(texts, read, scores, strict=True)):
        weighed = [
            (sentence, value * (_BEST_SENTENCE if value == most else 1.0))
            for sentence, value in zip(sentences, each, strict=True)
        ]
        value, at = _PartScores(text, weighed, longest).best_start(longest)
        if value > best * (_ANOTHER_PASSAGE if place else 1.0):
            best, chosen, start = value, place, at
    return chosen, start


def _on_one_line(part: str) -> str:
    """With single spaces.  The rows of a Markdown table become `cell | cell · cell | cell`, which is never longer."""
    joined, follows_row = "", False
    for line in part.split("\n"):
        if not _BELOW_HEADER.fullmatch(line):
            row = _MARKDOWN_ROW.fullmatch(line)
            joined += (" · " if row and follows_row else " ") + (row[1] if row else line)
            follows_row = row is not None
    return " ".join(joined.split())


def best_snippet(texts: Sequence[str], terms: QuestionTerms, max_chars: int) -> tuple[int, Snippet]:
    """The part of one of the texts, at most `max_chars` characters, whose sentences match most of the question.

    Also says which text that is; the first one needs least for it.  White space becomes single spaces, and a table in Markdown
    loses its outer bars.  An ellipsis (included in the limit) marks where text was left out.  Without a match, the snippet is the start of the first text.
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
    cut = _on_one_line(part)
    before = ELLIPSIS if text[:start].strip() else ""
    after = ELLIPSIS if text[end:].strip() or whole[MAX_TEXT_CHARS:].strip() else ""
    if cut == part.strip():
        moved = len(before) - start - (len(part) - len(part.lstrip()))
        spans = [
            (first + moved, last + moved)
            for _, first, last in matches[chosen]
            if start <= first < last <= end
        ]
    else:
        spans = [(len(before) + first, len(before) + last) for _, first, last in terms.matches(cut)]
    return chosen, Snippet(before + cut + after, without_overlap(spans))


MOST_MATCHES = 200
"""Matches of one field."""
LEXICAL = "lexical"


def matches_of(passage: PassageText, terms: QuestionTerms) -> list[dict[str, Any]]:
    """Ranges [start, end) in characters of each field, ascending, without overlap; the text's first 100,000 characters count."""
    return [
        {"field": field, "start": start, "end": end, "kind": LEXICAL}
        for field, text in (("title", passage.title), ("text", passage.text[:MAX_TEXT_CHARS]))
        for start, end in without_overlap([(start, end) for _, start, end in terms.matches(text)])[
            :MOST_MATCHES
        ]
    ]
