"""How many edited copies of documents indexing recognises: `python -m docs.evidence.near_duplicates FOLDER [THRESHOLD …]`.

FOLDER is a collection in the BEIR layout; of documents with the same text it keeps one.  A hundred documents get a copy each by
each kind of edit; copies and documents come to the groups of near-duplicates in any order.  A pair of one group is right if both
are made of one document.  Long texts have 80 words or more, short ones 20 to 79.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from sqlalchemy import create_engine

from ingest.document_ids import normalised
from ingest.near_duplicates import MIN_WORDS, NearDuplicates, is_short
from models.tables.documents import near_duplicates_metadata
from search.near_duplicate_rows import NearDuplicateRows

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")

Edit = Callable[[str, random.Random, Sequence[str]], str]
"""A text, a source of chance, and texts to take words and sentences from."""


def _words(change: Callable[[str, random.Random, Sequence[str]], list[str]], share: float) -> Edit:
    def edit(text: str, chance: random.Random, others: Sequence[str]) -> str:
        words = text.split()
        changed = set(chance.sample(range(len(words)), max(1, round(share * len(words)))))
        edited = [change(word, chance, others) if n in changed else [word] for n, word in enumerate(words)]
        return " ".join(word for some in edited for word in some)

    return edit


def _sentences(change: Callable[[list[str], random.Random, Sequence[str]], None]) -> Edit:
    def edit(text: str, chance: random.Random, others: Sequence[str]) -> str:
        sentences = _SENTENCE.split(text)
        change(sentences, chance, others)
        return " ".join(sentences)

    return edit


def _typo(word: str, chance: random.Random, others: Sequence[str]) -> list[str]:
    at = chance.randrange(len(word))
    return [word[:at] + chance.choice("aeiounrst") + word[at + 1 :]]


def _replaced(word: str, chance: random.Random, others: Sequence[str]) -> list[str]:
    return [chance.choice(chance.choice(others).split())]


def _inserted(word: str, chance: random.Random, others: Sequence[str]) -> list[str]:
    return [word, *_replaced(word, chance, others)]


def _deleted(word: str, chance: random.Random, others: Sequence[str]) -> list[str]:
    return []


def _dropped(sentences: list[str], chance: random.Random, others: Sequence[str]) -> None:
    if len(sentences) > 2:
        del sentences[chance.randrange(len(sentences))]


def _added(sentences: list[str], chance: random.Random, others: Sequence[str]) -> None:
    sentences.insert(
        chance.randrange(len(sentences) + 1), chance.choice(_SENTENCE.split(chance.choice(others)))
    )


def _shuffled(sentences: list[str], chance: random.Random, others: Sequence[str]) -> None:
    chance.shuffle(sentences)


def _framed(text: str, chance: random.Random, others: Sequence[str]) -> str:
    return f"Downloaded on 3 March 2021 for personal use only.\n{text}\nAll rights reserved by the publisher."


def _retyped(text: str, chance: random.Random, others: Sequence[str]) -> str:
    bare = re.sub(r"[.,;:()'\"]", "", text)
    return re.sub(r"\s+", lambda _: chance.choice((" ", "\n", "  ")), bare.upper())


def _swapped(text: str, chance: random.Random, others: Sequence[str]) -> str:
    words = text.split()
    at = chance.randrange(len(words) - 1)
    words[at : at + 2] = reversed(words[at : at + 2])
    return " ".join(words)


def _headed(text: str, chance: random.Random, others: Sequence[str]) -> str:
    heading = chance.choice(others).split()[: chance.randint(2, 4)]
    return f"{' '.join(heading)}\n\n{text}"


def _marked_up(word: str, chance: random.Random, others: Sequence[str]) -> list[str]:
    return [f"**{word}**"]


def _other_number(text: str, chance: random.Random, others: Sequence[str]) -> str:
    changed = chance.choice(list(_NUMBER.finditer(text)))
    other = re.sub(r"\d", lambda digit: str((int(digit[0]) + chance.randint(1, 9)) % 10), changed[0])
    return text[: changed.start()] + other + text[changed.end() :]


EDITS: Mapping[str, Edit] = {
    "case, punctuation and white space": _retyped,
    "a notice before and after it": _framed,
    "its sentences in another order": _sentences(_shuffled),
    "a sentence dropped": _sentences(_dropped),
    "a sentence added": _sentences(_added),
    "typing errors in 5 % of the words": _words(_typo, 0.05),
    "1 % of the words replaced": _words(_replaced, 0.01),
    "5 % of the words replaced": _words(_replaced, 0.05),
    "5 % of the words deleted": _words(_deleted, 0.05),
    "5 % more words": _words(_inserted, 0.05),
}
LIGHT: Mapping[str, Edit] = {
    "case, punctuation and white space": _retyped,
    "a word in bold (Markdown)": _words(_marked_up, 0),
    "a heading of 2 to 4 words added": _headed,
    "a typing error": _words(_typo, 0),
    "two neighbouring words swapped": _swapped,
    "a word replaced": _words(_replaced, 0),
}
"""For short texts; a share of 0 is one word."""
NUMBERS: Mapping[str, Edit] = {"one number changed": _other_number}
"""These edits are for texts with four numbers or more.  The edited text is no copy."""


@dataclass(frozen=True, slots=True)
class Recognised:
    """What the groups say of the edited copies."""

    right: int
    """Pairs of one group that were made of one document."""
    wrong: Sequence[tuple[str, str]]
    """Pairs of one group that were not."""
    matched: Mapping[str, int]
    """Copies that are in the group of their document, by kind of edit."""
    made: Mapping[str, int]

    @property
    def precision(self) -> float:
        return self.right / max(1, self.right + len(self.wrong))

    @property
    def recall(self) -> float:
        return sum(self.matched.values()) / sum(self.made.values())


@contextmanager
def _groups(threshold: float) -> Iterator[NearDuplicates]:
    with tempfile.TemporaryDirectory() as folder:
        engine = create_engine(f"sqlite:///{folder}/groups.db")
        near_duplicates_metadata.create_all(engine)

        @contextmanager
        def rows() -> Iterator[NearDuplicateRows]:
            with engine.begin() as connection:
                yield NearDuplicateRows(connection, 1)

        yield NearDuplicates(rows, threshold=threshold)
        engine.dispose()


def recognised(
    texts: Mapping[str, str], edits: Mapping[str, Edit], copies: int, threshold: float, seed: int = 7
) -> Recognised:
    """What the groups say of `copies` copies of as many texts, the kinds of edits in turn."""
    chance, others = random.Random(seed), list(texts.values())
    origin = {name: name for name in texts}
    kinds, everything = dict[str, str](), dict(texts)
    for place, name in enumerate(chance.sample(sorted(texts), copies)):
        kind = list(edits)[place % len(edits)]
        copy = f"{name}-copy"
        everything[copy] = edits[kind](texts[name], chance, others)
        origin[copy], kinds[copy] = name, kind
    names = list(everything)
    chance.shuffle(names)
    with _groups(threshold) as groups:
        assigned = groups.assign({name: everything[name] for name in names})
    group_of = {name: group or name for name, group in assigned.items()}
    members = defaultdict(list)
    for name, group in group_of.items():
        members[group].append(name)
    pairs = [pair for some in members.values() for pair in combinations(some, 2)]
    wrong = [(one, other) for one, other in pairs if origin[one] != origin[other]]
    matched = Counter(kind for copy, kind in kinds.items() if group_of[copy] == group_of[origin[copy]])
    return Recognised(len(pairs) - len(wrong), wrong, matched, Counter(kinds.values()))


def main() -> None:
    folder, *thresholds = sys.argv[1:]
    lines = (Path(folder) / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [line for line in map(json.loads, lines) if line["text"].strip()]
    texts = {row["_id"]: row["text"] for row in {normalised(row["text"]): row for row in rows}.values()}
    for threshold in map(float, thresholds or ["0.6"]):
        for kind, edits, chosen in _measured(texts):
            one = recognised(chosen, edits, min(100 * len(edits), len(chosen)), threshold)
            sys.stdout.write(
                f"threshold {threshold:g}, {kind}: precision {one.precision:.3f}, recall {one.recall:.3f}\n"
            )
            for edit, made in one.made.items():
                sys.stdout.write(f"  {edit:38} {one.matched.get(edit, 0):4} of {made}\n")
            for pair in one.wrong[:5]:
                sys.stdout.write(f"  not copies of one another: {' and '.join(pair)}\n")


def _measured(texts: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, Edit], dict[str, str]]]:
    """What is edited how: a name, the kinds of edits, and the texts."""
    long = {name: text for name, text in texts.items() if not is_short(text)}
    short = {name: text for name, text in texts.items() if is_short(text) and len(text.split()) >= MIN_WORDS}
    for kind, edits, candidates in (("long texts", EDITS, long), ("short texts", LIGHT, short)):
        if candidates:
            yield kind, edits, candidates
        numbered = {name: text for name, text in candidates.items() if len(_NUMBER.findall(text)) >= 4}
        if numbered:
            yield f"{kind} with other numbers", NUMBERS, numbered


if __name__ == "__main__":
    main()
