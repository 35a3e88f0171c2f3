"""Which rules concern a question.  Pure.

Words are compared as for snippets (`fusion.question_terms`): without case and accents, by a simple stem.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from chorale_client.limits import MAX_ALSO_SEARCHED, MAX_RULE_DOCUMENTS

from fusion.question_terms import tokens
from models.plan import QuestionRules
from models.rules import Block, Pin, Rules

Stems = tuple[str, ...]


def _stems(text: str) -> Stems:
    return tuple(stem for stem, _, _ in tokens(unicodedata.normalize("NFKC", text)))


def _exact(text: str) -> Stems:
    """The words of a question without case and punctuation."""
    text = unicodedata.normalize("NFKC", text)
    return tuple(text[start:end].casefold() for _, start, end in tokens(text))


class Matcher:
    """Finds the rules of a question without a look at each of them."""

    def __init__(self, rules: Rules, version: int) -> None:
        self.version = version
        self._rules = rules
        self._when: dict[str, Pin | Block] = {**rules.pin, **rules.block}
        self._always = [name for name, one in rules.block.items() if not one.questions and not one.contains]
        self._questions: dict[Stems, list[str]] = {}
        for name, one in self._when.items():
            for text in one.questions:
                self._questions.setdefault(_exact(text), []).append(name)
        contains = [
            (frozenset(stems), name)
            for name, one in self._when.items()
            for text in one.contains
            if (stems := _stems(text))
        ]
        counts = Counter(stem for words, _ in contains for stem in words)
        self._contains: dict[str, list[tuple[frozenset[str], str]]] = {}
        for words, name in contains:
            # Under the rarest of its words, which the fewest questions have.
            rarest = min(words, key=lambda stem: (counts[stem], stem))
            self._contains.setdefault(rarest, []).append((words, name))
        self._phrases: dict[str, list[tuple[Stems, str]]] = {}
        for name, synonyms in rules.synonyms.items():
            for text in synonyms.words:
                if stems := _stems(text):
                    self._phrases.setdefault(stems[0], []).append((stems, name))
        self._places = {name: place for place, name in enumerate(rules.names)}

    def of(self, question: str) -> QuestionRules | None:
        """None if no rule concerns it."""
        stems = _stems(question)
        concerned = {*self._always, *self._questions.get(_exact(question), ()), *self._containing(stems)}
        names = sorted(concerned, key=self._places.__getitem__)
        blocked = {
            document: name
            for name in names
            if name in self._rules.block
            for document in self._rules.block[name].documents
        }
        pinned: dict[str, str] = {}
        for name in names:
            if name in self._rules.pin:
                for document in self._rules.pin[name].documents:
                    if document not in blocked and len(pinned) < MAX_RULE_DOCUMENTS:
                        pinned.setdefault(document, name)
        also, synonyms = self._also(stems)
        if not (blocked or pinned or also):
            return None
        return QuestionRules(pinned=pinned, blocked=blocked, also=also, synonyms=synonyms)

    def _containing(self, stems: Sequence[str]) -> Iterator[str]:
        words = set(stems)
        for word in words:
            for wanted, name in self._contains.get(word, ()):
                if wanted <= words:
                    yield name

    def _also(self, stems: Stems) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The synonyms of the question's words, and the rules that they come from, both in the order of the rules."""
        found = {name for at, stem in enumerate(stems) for name in self._phrases_at(stems, at, stem)}
        also: dict[Stems, str] = {}
        used = []
        for name in sorted(found, key=self._places.__getitem__):
            one = self._rules.synonyms[name]
            more = {_stems(text): text for text in one.means or one.words}
            new = {
                words: text for words, text in more.items() if words not in also and not _is_in(words, stems)
            }
            if new and len(also) < MAX_ALSO_SEARCHED:
                used.append(name)
                also |= new
        return tuple(also.values())[:MAX_ALSO_SEARCHED], tuple(used)

    def _phrases_at(self, stems: Stems, at: int, stem: str) -> Iterable[str]:
        return (name for words, name in self._phrases.get(stem, ()) if stems[at : at + len(words)] == words)


def _is_in(words: Stems, stems: Stems) -> bool:
    return any(stems[at : at + len(words)] == words for at in range(len(stems) - len(words) + 1))
