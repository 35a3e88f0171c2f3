"""Which words of a text match a word of the question?  Simple matching, only for snippets and highlights.

Words match without case and accents if they have the same simple stem (`notices` and `notice`, `contratti` and
`contratto`) or a long common prefix (`connection` and `connected`).  Chinese, Japanese and Korean characters, which are
written without spaces, match as pairs of neighbours.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from operator import itemgetter

from fusion.stop_words import STOP_WORDS


def _plain(char: str) -> str:
    """The letter without accents, or a space for what is no part of a word; the character itself if neither holds."""
    kind = unicodedata.category(char)[0]
    if kind in "PSZ":
        return " "
    bare = "".join(one for one in unicodedata.normalize("NFKD", char) if not "\u0300" <= one <= "\u036f")
    return bare if kind == "L" and bare.isalpha() else char


_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
# Python's \w lacks combining marks and would split a Hindi word at each vowel.
_MARKS = "".join(chr(code) for code in range(0x300, 0x1E00) if unicodedata.category(chr(code))[0] == "M")
_TOKEN = re.compile(rf"([{_CJK}]+)|[^\W_{_CJK}][^\W_{_CJK}{_MARKS}]*(?:[{_MARKS}]+[^\W_{_CJK}{_MARKS}]*)*")
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+")
_PLAIN = {
    chr(code): base
    for first, last in ((0x80, 0x250), (0x1E00, 0x1F00), (0x2000, 0x2070), (0x20A0, 0x20C0))
    for code in range(first, last)
    if len(base := _plain(chr(code))) == 1 and base.isascii()
}
"""ASCII for letters with accents and for punctuation, without a change of length."""
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_ENDING = re.compile(r"(?:ings?|ed|[aeiouy]*s?)$")

MAX_WORD_CHARS = 64
"""Only this many characters of a word are compared."""
MAX_TERMS = 256
"""Only this many terms of a question are used."""
_SHORTEST_BEGINNING, _LONGEST_REST = 5, 3


@lru_cache(maxsize=16_384)
def _stem(word: str) -> str:
    folded = word.casefold()
    if not folded.isascii():
        plain = unicodedata.normalize("NFKD", folded)
        folded = "".join(char for char in plain if not "\u0300" <= char <= "\u036f")
    stem = _ENDING.sub("", folded, count=1)
    if len(stem) < 3 or any(char.isdigit() for char in folded):
        return folded
    return stem[:-1] if stem[-1] == stem[-2] else stem


def tokens(text: str) -> Iterator[tuple[str, int, int]]:
    """(stem, start, end) of every word, and of every pair in a run of CJK characters."""
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        if match.lastindex is None:
            yield _stem(match[0][:MAX_WORD_CHARS]), start, end
        elif end - start == 1:
            yield match[0], start, end
        else:
            for at in range(start, end - 1):
                yield text[at : at + 2], at, at + 2


def _plain_of(char: re.Match[str]) -> str:
    return _PLAIN.get(char[0], char[0])


class QuestionTerms:
    """The terms of a question; stop words are terms only if there are no other words."""

    def __init__(self, question: str) -> None:
        words = [(stem, question[start:end].casefold()) for stem, start, end in tokens(question)]
        stems = [stem for stem, word in words if word not in STOP_WORDS] or [stem for stem, _ in words]
        self.terms: tuple[str, ...] = tuple(dict.fromkeys(stems))[:MAX_TERMS]
        self._exact = frozenset(self.terms)
        self._heads = frozenset(term[:3] for term in self.terms if term.isascii())
        self._by_beginning: dict[str, str] = {}
        self._known: dict[str, str | None] = {}
        """The terms of the stems seen so far: the texts of one answer share most of their words."""
        for term in self.terms:
            for length in range(max(_SHORTEST_BEGINNING, len(term) - _LONGEST_REST), len(term)):
                self._by_beginning.setdefault(term[:length], term)

    def term_of(self, stem: str) -> str | None:
        """The question's term that this stem of a word matches, or None."""
        if stem in self._exact:
            return stem
        if (term := self._by_beginning.get(stem)) is not None:
            return term
        for length in range(len(stem) - 1, max(_SHORTEST_BEGINNING, len(stem) - _LONGEST_REST) - 1, -1):
            if stem[:length] in self._exact:
                return stem[:length]
        return None

    def matches(self, text: str) -> list[tuple[str, int, int]]:
        """(term, start, end) of every word of the text that matches a term, in order."""
        plain = text if text.isascii() else _NOT_ASCII.sub(_plain_of, text)
        words = self._likely_words(plain) if plain.isascii() else tokens(text)
        known, found = self._known, []
        for stem, start, end in words:
            if stem not in known:
                known[stem] = self.term_of(stem)
            if (term := known[stem]) is not None:
                found.append((term, start, end))
        return found

    def _likely_words(self, text: str) -> list[tuple[str, int, int]]:
        # In ASCII a stem is a prefix of its word, so a matching word starts like a term.  Looking only for these
        # starts is about ten times faster than reading all words.
        lowered, found = text.lower(), []
        for head in self._heads:
            at = lowered.find(head)
            while at >= 0:
                if not (at and lowered[at - 1].isalnum()) and (word := _ASCII_WORD.match(text, at)):
                    found.append((_stem(word[0][:MAX_WORD_CHARS]), at, word.end()))
                at = lowered.find(head, at + 1)
        return sorted(set(found), key=itemgetter(1))
