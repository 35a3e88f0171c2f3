"""How often a copy, and how often another statement, is folded: `python -m docs.evidence.other_statements [PAIRS]`.

Texts in six languages are made of sentences with blanks.  An other statement has another number, number word, name, unit, date or title,
a negation more, or another passage beside the same boilerplate.  A copy is reformatted, framed, reordered, or has a sentence more or less.
Each kind has PAIRS (100) pairs, half of them short (20 to 79 words).
"""

from __future__ import annotations

import random
import sys
import textwrap
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ingest.near_duplicates import MIN_WORDS, SHORT_THRESHOLD, are_copies, is_short, signature, similarities

NAMES = ("Petersen", "Lindqvist", "Okafor", "Moreau", "Castellani", "Novak")


@dataclass(frozen=True)
class Language:
    blanks: Sequence[str]
    """Sentences with blanks for a name, a number, a unit, a day and month, a number word and a negation."""
    others: Sequence[str]
    passages: Sequence[str]
    """Of two pages with the same boilerplate."""
    units: Sequence[str]
    months: Sequence[str]
    words: Sequence[str]
    negation: str


LANGUAGES = [
    Language(**fields)
    for fields in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["language"]
]


@dataclass(frozen=True)
class Text:
    language: Language
    sentences: tuple[str, ...]
    blanks: Mapping[str, str]
    title: str = ""

    def __str__(self) -> str:
        return " ".join(self.sentences).format(**self.blanks)


Change = Callable[[Text, random.Random], tuple[str, str]]
"""A text, a source of chance -> the changed text and its title."""


def made(language: Language, chance: random.Random, *, is_long: bool) -> Text:
    others = [*language.others] if is_long else chance.sample(list(language.others), 1)
    sentences = [*language.blanks, *others]
    chance.shuffle(sentences)
    blanks = {
        "name": chance.choice(NAMES),
        "number": str(chance.randint(300, 3_000)),
        "unit": chance.choice(language.units),
        "day": str(chance.randint(1, 28)),
        "month": chance.choice(language.months),
        "word": chance.choice(language.words),
        "negation": "",
    }
    return Text(language, tuple(sentences), blanks)


def _other(blank: str, values: Callable[[Text], Sequence[str]]) -> Change:
    def change(text: Text, chance: random.Random) -> tuple[str, str]:
        value = chance.choice([value for value in values(text) if value != text.blanks[blank]])
        return str(replace(text, blanks={**text.blanks, blank: value})), ""

    return change


def _other_passage(text: Text, chance: random.Random) -> tuple[str, str]:
    """Of two pages with the same boilerplate, the second one; `_with_passage` makes the first."""
    return _with_passage(text, 1), ""


def _with_passage(text: Text, which: int) -> str:
    return f"{text.language.passages[which]} {text}"


def _framed(text: Text, chance: random.Random) -> tuple[str, str]:
    return f"Downloaded on 3 March 2021 for personal use.\n\n{text}\n\nPrinted by the archive, page 4.", ""


def _retyped(text: Text, chance: random.Random) -> tuple[str, str]:
    return str(text).upper().replace(",", "").replace(".", ""), ""


def _wrapped(text: Text, chance: random.Random) -> tuple[str, str]:
    return textwrap.fill(str(text), 40), ""


def _in_markdown(text: Text, chance: random.Random) -> tuple[str, str]:
    return str(text).replace(text.blanks["name"], f"**{text.blanks['name']}**"), ""


def _headed(text: Text, chance: random.Random) -> tuple[str, str]:
    return f"{text.blanks['name']} {text.blanks['number']}\n\n{text}", ""


def _reordered(text: Text, chance: random.Random) -> tuple[str, str]:
    return str(replace(text, sentences=tuple(chance.sample(text.sentences, len(text.sentences))))), ""


def _shortened(text: Text, chance: random.Random) -> tuple[str, str]:
    return str(replace(text, sentences=text.sentences[:-1])), ""


def _longer(text: Text, chance: random.Random) -> tuple[str, str]:
    return f"{text} {text.language.passages[0]}", ""


OTHERS: Mapping[str, Change] = {
    "another number": _other("number", lambda text: [str(n) for n in range(300, 3_000)]),
    "another number word": _other("word", lambda text: text.language.words),
    "a negation": _other("negation", lambda text: [text.language.negation]),
    "another name": _other("name", lambda text: NAMES),
    "another unit": _other("unit", lambda text: text.language.units),
    "another day": _other("day", lambda text: [str(day) for day in range(1, 29)]),
    "another month": _other("month", lambda text: text.language.months),
    "another title": lambda text, chance: (str(text), "os.rmdir"),
    "another passage beside boilerplate": _other_passage,
}
COPIES: Mapping[str, Change] = {
    "capitals, no punctuation": _retyped,
    "lines of 40 characters": _wrapped,
    "a word in bold (Markdown)": _in_markdown,
    "a header and a footer": _framed,
    "a heading": _headed,
    "sentences in another order": _reordered,
    "a sentence less": _shortened,
    "a sentence more": _longer,
}


def folded(changes: Mapping[str, Change], pairs: int, threshold: float = 0.6) -> dict[tuple[str, str], float]:
    """The share of the pairs that indexing folds, by kind of change, and by `long` or `short`."""
    chance, shares = random.Random(7), dict[tuple[str, str], float]()
    for kind, change in changes.items():
        for length in ("long", "short"):
            count = 0
            for number in range(pairs // 2):
                language = LANGUAGES[number % len(LANGUAGES)]
                text = made(language, chance, is_long=length == "long")
                first = _with_passage(text, 0) if change is _other_passage else str(text)
                copy, title = change(text, chance)
                count += _are_folded((first, "os.mkfifo" if title else ""), (copy, title), threshold)
            shares[kind, length] = count / (pairs // 2)
    return shares


def _are_folded(first: tuple[str, str], copy: tuple[str, str], threshold: float) -> bool:
    one, other = signature(*first), signature(*copy)
    if one is None or other is None:
        raise ValueError(f"a text has fewer than {MIN_WORDS} words")
    least = SHORT_THRESHOLD if is_short(copy[0]) else threshold
    return bool(similarities(other, one[np.newaxis])[0] >= least) and are_copies(other, one)


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    for name, changes in (("other statements", OTHERS), ("copies", COPIES)):
        shares = folded(changes, pairs)
        mean = sum(shares.values()) / len(shares)
        sys.stdout.write(f"{name}: {mean:.3f} folded\n")
        for kind in changes:
            sys.stdout.write(
                f"  {kind:36} long {shares[kind, 'long']:.2f}, short {shares[kind, 'short']:.2f}\n"
            )
    wrong, right = (sum(folded(changes, pairs).values()) / len(changes) for changes in (OTHERS, COPIES))
    sys.stdout.write(f"precision {right / (right + wrong):.3f}, recall {right / 2:.3f}\n")


if __name__ == "__main__":
    main()
