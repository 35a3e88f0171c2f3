"""Which rules concern a question.  Whoever plans a request reads the rules from their copy in Redis.

Words are compared as for snippets (`fusion.question_terms`): without case and accents, by a simple stem.
"""

from __future__ import annotations

import threading
import time
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import cast

from chorale_client.keys import RULES
from chorale_client.limits import MAX_ALSO_SEARCHED, MAX_RULE_DOCUMENTS
from chorale_client.wire_names import Warned
from pydantic_core import from_json
from redis import Redis
from redis.exceptions import RedisError
from structlog import get_logger

from fusion.question_terms import tokens
from models.errors import ServiceError
from models.plan import QuestionRules
from models.rules import Block, Pin, Rules, read_rules

log = get_logger("chorale.rules")

Stems = tuple[str, ...]


def _stems(text: str) -> Stems:
    return tuple(stem for stem, _, _ in tokens(unicodedata.normalize("NFKC", text)))


def _exact(text: str) -> Stems:
    """The words of a question without case and punctuation."""
    text = unicodedata.normalize("NFKC", text)
    return tuple(text[start:end].casefold() for _, start, end in tokens(text))


class Matcher:
    """Finds the rules of a question."""

    def __init__(self, rules: Rules, version: int) -> None:
        self.version = version
        self.weights_of = rules.weights_of
        self._rules = rules
        self._when: dict[str, Pin | Block] = {**rules.pin, **rules.block}
        self._always = [
            name for name, rule in rules.block.items() if not rule.questions and not rule.contains
        ]
        self._questions: dict[Stems, list[str]] = {}
        for name, rule in self._when.items():
            for text in rule.questions:
                self._questions.setdefault(_exact(text), []).append(name)
        self._contains = [
            (frozenset(stems), name)
            for name, rule in self._when.items()
            for text in rule.contains
            if (stems := _stems(text))
        ]
        self._phrases: dict[str, list[tuple[Stems, str]]] = {}
        for name, synonyms in rules.synonyms.items():
            for text in synonyms.words:
                if stems := _stems(text):
                    self._phrases.setdefault(stems[0], []).append((stems, name))
        self._places = {name: place for place, name in enumerate(rules.names)}

    def of(self, question: str) -> QuestionRules | None:
        """None if no rule concerns it."""
        stems = _stems(question)
        words = set(stems)
        containing = [name for required, name in self._contains if required <= words]
        concerned = {*self._always, *self._questions.get(_exact(question), ()), *containing}
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
                    if document not in blocked:
                        pinned.setdefault(document, name)
        also, synonyms = self._also(stems)
        if len(pinned) > MAX_RULE_DOCUMENTS or len(also) > MAX_ALSO_SEARCHED:
            log.warning("rules left out", version=self.version, pinned=len(pinned), also_searched=len(also))
            pinned = dict(islice(pinned.items(), MAX_RULE_DOCUMENTS))
            also = also[:MAX_ALSO_SEARCHED]
        if not (blocked or pinned or also):
            return None
        return QuestionRules(pinned=pinned, blocked=blocked, also=also, synonyms=synonyms)

    def _also(self, stems: Stems) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The synonyms of the question's words, and the rules that they come from, both in the order of the rules."""
        concerned = {name for at, stem in enumerate(stems) for name in self._phrases_at(stems, at, stem)}
        also: dict[Stems, str] = {}
        used = []
        for name in sorted(concerned, key=self._places.__getitem__):
            synonyms = self._rules.synonyms[name]
            more = {_stems(text): text for text in synonyms.means or synonyms.words}
            new = {
                words: text for words, text in more.items() if words not in also and not _is_in(words, stems)
            }
            if new:
                if len(also) < MAX_ALSO_SEARCHED:
                    used.append(name)
                also |= new
        return tuple(also.values()), tuple(used)

    def _phrases_at(self, stems: Stems, at: int, stem: str) -> Iterable[str]:
        return (name for words, name in self._phrases.get(stem, ()) if stems[at : at + len(words)] == words)


def _is_in(words: Stems, stems: Stems) -> bool:
    return any(stems[at : at + len(words)] == words for at in range(len(stems) - len(words) + 1))


READ_EVERY_S = 1.0
"""A change holds for every request that is accepted this long after it."""
MAX_REMEMBERED = 1_000
"""Namespaces whose rules a process remembers."""


@dataclass(slots=True)
class _Read:
    at_s: float
    text: bytes | None = None
    matcher: Matcher | None = None
    is_unread: bool = False
    """Whether the last reading failed."""


class PublishedRules:
    """Thread-safe; reads a namespace's rules at most once in READ_EVERY_S."""

    def __init__(self, redis: Redis, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis = redis
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Read] = OrderedDict()

    def of(self, namespace: str) -> Matcher | None:
        """None without rules.  If Redis does not answer, the rules that were read last."""
        with self._lock:
            now_s = self._clock()
            known = self._known.setdefault(namespace, _Read(now_s - READ_EVERY_S))
            self._known.move_to_end(namespace)
            if now_s - known.at_s >= READ_EVERY_S:
                known.at_s = now_s
                self._read(namespace, known)
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)
            return known.matcher

    def warnings(self, namespace: str) -> tuple[str, ...]:
        """What an answer has to say of what `of` returned last."""
        with self._lock:
            known = self._known.get(namespace)
        unread = known is not None and known.is_unread
        return (f"{Warned.RULES}: not read; those that were read before hold",) if unread else ()

    def _read(self, namespace: str, known: _Read) -> None:
        known.is_unread = False
        try:
            text = cast("bytes | None", self._redis.hget(RULES, namespace))
            if text != known.text:
                known.matcher = None if text is None else _matcher(text)
                known.text = text
        except (RedisError, ServiceError, ValueError, KeyError, TypeError) as error:
            # Rules of a newer version of the program may be unreadable here.
            known.is_unread = True
            log.warning("rules not read", namespace=namespace, error=str(error)[:200])


def _matcher(text: bytes) -> Matcher:
    wire = from_json(text)
    return Matcher(read_rules(wire["rules"]), wire["version"])
