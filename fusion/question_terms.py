"""The words of a question: which words of a text match them, and which type of question they form.

The matching is simple, only for snippets, highlights and rules.  Words match without case and accents if they have the same simple
stem (`notices` and `notice`, `contratti` and `contratto`) or a long common prefix (`connection` and `connected`).  Characters of
scripts that are written without spaces match as pairs of neighbours, and identifiers in each of their forms (`models.texts.identifiers`).

The type is for configurations that weigh branches by it.  Languages written without spaces have long words here: their questions
count as `keyword`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter

from models.texts.identifiers import forms, has_words_inside
from models.texts.readable_text import CJK, UNSPACED, clusters, readable

_ENGLISH = """
a about all am an and any are as at be been but by can
could did do does for from had happen happened happens has have he her him his how i if in into is it its me my no nor not of on
or our out she should so some such than that the their them then there these they this those to too under
until up was we were what when where which while who whom why will with would you your
"""
_ITALIAN = """
ai al alla alle allo agli che chi ci come con cui da dal dalla dei del della delle dello degli di dove e
ed gli ha ho il la le lo i nel nella nei non o per quale quali quando sono si su succede sul sulla tra un una uno
"""
_GERMAN = """
als am an auf aus bei das dem den der des die ein eine einen einer es für im ist mit nach oder passiert sich sind
und von wann was wer wie zu zum zur
"""
_FRENCH = """
au aux avec ce ces dans de du elle en est et il la le les leur mais ne où par pas passe pour que qui quand sa
ses sur un une
"""
_SPANISH = """
al como con cuando de del donde el en es está la las lo los para pasa pero por qué que se sin su un una y
"""

STOP_WORDS = frozenset((_ENGLISH + _ITALIAN + _GERMAN + _FRENCH + _SPANISH).split())


def _plain(char: str) -> str:
    """The letter without accents, or a space for what is no part of a word; the character itself if neither holds."""
    kind = unicodedata.category(char)[0]
    if kind in "PSZ":
        return " "
    bare = "".join(part for part in unicodedata.normalize("NFKD", char) if not "\u0300" <= part <= "\u036f")
    return bare if kind == "L" and bare.isalpha() else char


# Python's \w lacks combining marks and would split a Hindi word at each vowel.
_MARKS = "".join(chr(code) for code in range(0x300, 0x1E00) if unicodedata.category(chr(code))[0] == "M")
_TOKEN = re.compile(
    rf"({UNSPACED.pattern})|[^\W_{CJK}][^\W_{CJK}{_MARKS}]*(?:[{_MARKS}]+[^\W_{CJK}{_MARKS}]*)*"
)
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
    """(stem, start, end) of every word, and of every pair in a run of a script without spaces."""
    for match in _TOKEN.finditer(text):
        at, end = match.span()
        if match.lastindex is None:
            yield _stem(match[0][:MAX_WORD_CHARS]), at, end
            continue
        characters = list(clusters(match[0]))
        for (start, _), (_, last) in pairwise(characters) if len(characters) > 1 else [characters * 2]:
            yield text[at + start : at + last], at + start, at + last


def _end(text: str, read: str, places: Sequence[int], end: int) -> int:
    last = places[end - 1]
    is_entity = text[last] == "&" and read[end - 1] != "&"
    return places[end] if is_entity else last + 1


def _plain_of(char: re.Match[str]) -> str:
    return _PLAIN.get(char[0], char[0])


class QuestionTerms:
    """The terms of a question; stop words are terms only if there are no other words."""

    def __init__(self, question: str) -> None:
        question, _ = readable(question)
        words = [(stem, question[start:end].casefold()) for stem, start, end in tokens(question)]
        stems = [stem for stem, word in words if word not in STOP_WORDS] or [stem for stem, _ in words]
        text_forms = forms(question)
        inner = [_stem(word) for word, _, _ in text_forms.words]
        # A number is the whole of `1,299.00`.
        self._wholes = frozenset(
            [*(one.whole for one in text_forms.identifiers), *filter(str.isdecimal, stems)]
        )
        self._characters = [
            stem for stem in stems if UNSPACED.fullmatch(stem) and len([*clusters(stem)]) == 1
        ]
        self.terms: tuple[str, ...] = tuple(dict.fromkeys((*stems, *inner)))[:MAX_TERMS]
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
        read, places = readable(text)
        plain = read if read.isascii() else _NOT_ASCII.sub(_plain_of, read)
        words = [*(self._likely_words(plain) if plain.isascii() else tokens(read))]
        matches = []
        if self._wholes or has_words_inside(read):
            text_forms = forms(read)
            words += [(_stem(word), start, end) for word, start, end in text_forms.words]
            matches += [
                (one.whole, one.start, one.end) for one in text_forms.identifiers if one.whole in self._wholes
            ]
        for character in self._characters:
            matches += [(character, *match.span()) for match in re.finditer(re.escape(character), read)]
        known = self._known
        for stem, start, end in words:
            if stem not in known:
                known[stem] = self.term_of(stem)
            if (term := known[stem]) is not None:
                matches.append((term, start, end))
        return sorted(
            ((term, places[start], _end(text, read, places, end)) for term, start, end in matches),
            key=itemgetter(1, 2),
        )

    def _likely_words(self, text: str) -> list[tuple[str, int, int]]:
        # In ASCII a stem is a prefix of its word, so a matching word starts like a term.  Looking only for these
        # starts is about ten times faster than reading all words.
        lowered, words = text.lower(), []
        for head in self._heads:
            at = lowered.find(head)
            while at >= 0:
                if not (at and lowered[at - 1].isalnum()) and (word := _ASCII_WORD.match(text, at)):
                    words.append((_stem(word[0][:MAX_WORD_CHARS]), at, word.end()))
                at = lowered.find(head, at + 1)
        return sorted(set(words), key=itemgetter(1))


IDENTIFIER, KEYWORD, SENTENCE, LONG = "identifier", "keyword", "sentence", "long"
QUESTION_TYPES = (IDENTIFIER, KEYWORD, SENTENCE, LONG)

_LONGEST_SENTENCE = 25
_QUESTION_WORD = re.compile(r"[^\W_]+(?:['’\-_./:][^\W_]+)*|\w+")


def question_type(text: str) -> str:
    """One of QUESTION_TYPES.

    `long`: more than 25 words; `identifier`: it has one for certain (`models.texts.identifiers`); `keyword`: no word such as `the` or `what` among the
    others; `sentence`: the rest.
    """
    words = _QUESTION_WORD.findall(text)
    if len(words) > _LONGEST_SENTENCE:
        return LONG
    if any(one.is_certain for one in forms(readable(text)[0]).identifiers):
        return IDENTIFIER
    return SENTENCE if any(word.casefold() in STOP_WORDS for word in words) else KEYWORD
