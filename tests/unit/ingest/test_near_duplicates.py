"""Near-duplicates: signatures that estimate similarity, groups without chains, groups that last between runs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import create_engine, event, func, select
from sqlalchemy.pool import NullPool

from docs.evidence.near_duplicates import EDITS, recognised
from docs.evidence.other_statements import COPIES, OTHERS, folded
from ingest.near_duplicates import PERMUTATIONS, NearDuplicates, are_copies, signature, similarities
from models.documents import Signature
from models.tables.documents import (
    band_table,
    group_table,
    member_table,
    near_duplicates_metadata,
)
from search import near_duplicate_rows
from search.near_duplicate_rows import NearDuplicateRows
from tests.support.new_process import printed
from tests.support.servers.databases import empty_database


class Namespace:
    """Groups of one namespace in a database."""

    def __init__(self, url: str, *, namespace_id: int = 1, threshold: float = 0.6) -> None:
        self.engine = create_engine(url, poolclass=NullPool)
        near_duplicates_metadata.create_all(self.engine)
        self._namespace_id = namespace_id
        self.groups = NearDuplicates(self.rows, threshold=threshold)

    @contextmanager
    def rows(self) -> Iterator[NearDuplicateRows]:
        with self.engine.begin() as connection:
            yield NearDuplicateRows(connection, self._namespace_id)

    def assign(self, document_id: str, text: str) -> str | None:
        return self.groups.assign({document_id: text})[document_id]

    def counts(self) -> list[int | None]:
        """Rows of groups, bands and members."""
        counted = [
            select(func.count()).select_from(table) for table in (group_table, band_table, member_table)
        ]
        with self.engine.begin() as connection:
            return [connection.scalar(count) for count in counted]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with empty_database(request.param, tmp_path) as url:
        yield url


@pytest.fixture
def namespace(tmp_path: Path) -> Namespace:
    return Namespace(f"sqlite:///{tmp_path}/groups.db")


def letters(first: int, last: int) -> list[str]:
    """Words without digits, each another one."""
    return ["x" + "".join(chr(ord("a") + int(digit)) for digit in str(n)) for n in range(first, last)]


def words(first: int, last: int) -> str:
    return " ".join(letters(first, last))


def signed(text: str) -> Signature:
    own = signature(text)
    assert own is not None
    return own


@pytest.mark.parametrize("shift", [0, 5, 20, 50, 100])
def test_signatures_estimate_the_share_of_common_shingles(shift: int) -> None:
    # Texts of 200 words have 198 shingles each, and these share 198 - shift of them.
    expected = (198 - shift) / (198 + shift)
    [estimated] = similarities(signed(words(0, 200)), signed(words(shift, 200 + shift))[np.newaxis])
    assert estimated == pytest.approx(expected, abs=4 * (expected * (1 - expected) / PERMUTATIONS) ** 0.5)


def test_signatures_are_equal_in_every_process() -> None:
    program = "from ingest.near_duplicates import signature; print(signature(' '.join(map(str, range(50)))).tolist())"
    assert printed(program, PYTHONHASHSEED="1") == [str(signed(" ".join(map(str, range(50)))).tolist())]


def test_a_near_duplicate_joins_the_group_of_the_first(namespace: Namespace) -> None:
    assert namespace.assign("a", words(0, 200)) is None
    assert namespace.assign("b", words(0, 199) + " changed") == "a"
    assert namespace.assign("c", words(500, 700)) is None
    assert namespace.assign("copy", words(0, 200).upper()) == "a"
    with pytest.raises(ValueError, match=r"threshold: 0\.2; allowed: 0\.5 to 1"):
        NearDuplicates(namespace.rows, threshold=0.2)


def test_groups_do_not_chain(url: str) -> None:
    # Similarities: a-b and b-c 182/214 = .85, a-c 166/230 = .72.
    namespace = Namespace(url, threshold=0.78)
    assert namespace.assign("a", words(0, 200)) is None
    assert namespace.assign("b", words(16, 216)) == "a"
    assert namespace.assign("c", words(32, 232)) is None


def test_a_short_text_needs_more_in_common_than_a_long_one(url: str) -> None:
    namespace = Namespace(url, threshold=0.6)
    assert namespace.assign("19 words", words(0, 19)) is namespace.assign("the same 19", words(0, 19)) is None
    assert namespace.assign("20 words", words(0, 20)) is None
    assert namespace.assign("the same 20", words(0, 20)) == "20 words"
    # Both have a similarity of .79: 61 shingles of 77, and 78 of 98.
    for first, length in ((0, 79), (1_000, 80)):
        namespace.assign(f"{length} words", words(first, first + length))
    assert namespace.assign("short", words(0, 63)) is None
    assert namespace.assign("long", words(1_000, 1_080) + ". " + words(1_500, 1_520)) == "80 words"
    assert namespace.assign("with a heading", words(600, 604) + "\n\n" + words(0, 79)) == "79 words"


def test_a_copy_with_swapped_words_joins_a_short_text_and_another_statement_does_not(
    namespace: Namespace,
) -> None:
    # Of 28 shingles a swap changes two: 26/30 = .87.  Of 23 shingles another word changes three: 20/26 = .77.
    thirty, rule = letters(100, 130), letters(200, 225)
    namespace.assign("30 words", " ".join(thirty))
    namespace.assign("rule", " ".join(rule))
    swapped = [*thirty[:15], thirty[16], thirty[15], *thirty[17:]]
    assert namespace.assign("swapped", " ".join(swapped)) == "30 words"
    assert namespace.assign("other rule", " ".join([*rule[:12], "quarterly", *rule[13:]])) is None


def test_other_statements_are_not_folded_and_copies_are() -> None:
    """Texts in six languages: another number, number word, negation, name, unit, date, title or passage is another statement."""
    others, copies = folded(OTHERS, 24), folded(COPIES, 24)
    assert {change: share for change, share in others.items() if share} == {}
    assert {change[0]: share for change, share in copies.items() if change[1] == "long"} == dict.fromkeys(
        COPIES, 1.0
    )
    reformatted = (
        "capitals, no punctuation",
        "lines of 40 characters",
        "a word in bold (Markdown)",
        "a heading",
    )
    assert {copies[kind, "short"] for kind in reformatted} == {1.0}


LONG = words(0, 60) + ". " + words(60, 120) + "."


@pytest.mark.parametrize(
    ("before", "after", "group"),
    [
        ("costs 1,200", "costs 1,300", None),
        ("costs 1,200", "costs 1200", "a"),
        ("within four weeks", "within six weeks", None),
        ("is allowed", "is not allowed", None),
        ("was allowed", "wasn't allowed", None),
        ("es erlaubt", "es nicht erlaubt", None),
        ("платит", "не платит", None),
        ("by Anna Keller", "by Jonas Brandt", None),
        ("5 kg", "5 mg", None),
        ("on 3 May", "on 3 June", None),
        ("module foo of foo", "module bar of bar", None),
        ("one two red", "three lovely blue shoes", None),
        ("is a pretty place", "is a lovely place", "a"),
    ],
)
def test_one_changed_statement_in_a_long_text_keeps_it_apart_and_another_word_does_not(
    namespace: Namespace, before: str, after: str, group: str | None
) -> None:
    first, last = LONG.split(". ")
    assert namespace.assign("a", f"{first} {before} xq. {last}") is None
    assert namespace.assign("b", f"{first} {after} xq. {last}") == group
    assert namespace.assign("c", f"{last} {first} {before} xq.") == "a"


def test_the_same_text_under_another_title_is_another_document(namespace: Namespace) -> None:
    def assign(document_id: str, title: str) -> str | None:
        return namespace.groups.assign({document_id: LONG}, {document_id: title})[document_id]

    assert assign("mkfifo", "os.mkfifo — Python") is None
    assert assign("rmdir", "os.rmdir — Python") is None
    assert assign("copy", "Copy of os.rmdir – Python") == "rmdir"
    assert assign("untitled", "") == "mkfifo"


def test_a_form_of_nothing_but_blanks_has_a_signature() -> None:
    form, longer = signature("____ " * 25), signature("____ " * 26)
    assert form is not None
    assert longer is not None
    assert are_copies(form, longer)


def test_edited_copies_are_recognised_and_other_texts_are_not() -> None:
    """A small sample of what docs/evidence/near_duplicates.py measures."""
    chance = random.Random(3)
    vocabulary = letters(0, 5_000)
    sentences = [
        " ".join(vocabulary[int(chance.paretovariate(0.4)) % 5_000] for _ in range(18)) for _ in range(960)
    ]
    texts = {f"d{n}": ". ".join(sentences[8 * n : 8 * n + 8]) + "." for n in range(120)}
    recognition = recognised(texts, EDITS, 60, threshold=0.6)
    assert recognition.precision >= 0.95
    assert recognition.recall >= 0.95
    assert set(recognition.made.values()) == {6}


def test_assigning_again_changes_nothing(namespace: Namespace) -> None:
    texts = {"a": words(0, 200), "b": words(1, 200), "c": words(300, 500)}
    first = {name: namespace.assign(name, text) for name, text in texts.items()}
    before = namespace.counts()
    assert {name: namespace.assign(name, text) for name, text in texts.items()} == first
    assert namespace.groups.assign(texts) == first
    assert namespace.counts() == before == [2, 2 * 32, 3]


def test_a_group_outlives_the_document_that_began_it(namespace: Namespace) -> None:
    namespace.assign("a", words(0, 200))
    assert namespace.assign("b", words(1, 200)) == "a"
    # The new text of "a" has nothing to do with "b", which is still in the group "a".
    assert namespace.assign("a", words(700, 900)) == "a~2"
    assert namespace.assign("d", words(701, 900)) == "a~2"
    assert namespace.assign("e", words(2, 200)) == "a"
    # The same from no group: "d" is still in "a~2".
    assert namespace.assign("a", "short") is None
    assert namespace.assign("a", words(300, 500)) == "a~3"


def test_a_group_ends_with_its_last_member(namespace: Namespace) -> None:
    namespace.assign("a", words(0, 200))
    namespace.assign("b", words(1, 200))
    namespace.groups.forget(["a"])
    assert namespace.assign("c", words(2, 200)) == "a"
    namespace.groups.forget(["b", "c", "never there"])
    assert namespace.counts() == [0, 0, 0]
    assert namespace.assign("d", words(0, 200)) is None


@pytest.mark.parametrize("size", [7, 40])
def test_a_batch_is_grouped_like_single_documents(tmp_path: Path, size: int) -> None:
    # 40 documents of 5 texts, each with a few words changed; some of them come again with another text.
    url = f"sqlite:///{tmp_path}/groups.db"
    chance = random.Random(7)
    handed_in = [
        (f"d{chance.randrange(28)}", words(1000 * kind, 1000 * kind + 150 + chance.randrange(10)))
        for kind in (chance.randrange(5) for _ in range(40))
    ]
    alone, together = Namespace(url, namespace_id=1), Namespace(url, namespace_id=2)
    for first in range(0, len(handed_in), size):
        part = dict(handed_in[first : first + size])
        expected = {document_id: alone.assign(document_id, text) for document_id, text in part.items()}
        assert together.groups.assign(part) == expected
        gone = [document_id for document_id in part if chance.random() < 0.2]
        for document_id in gone:
            alone.groups.forget([document_id])
        together.groups.forget(gone)
    half = [(count or 0) // 2 for count in alone.counts()]
    assert alone.counts() == [2 * count for count in half]
    assert half[0] >= 5
    assert half[2] > 10


def test_a_text_is_compared_with_every_group_that_shares_a_band(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(near_duplicate_rows, "_AT_ONCE", 2)
    namespace = Namespace(f"sqlite:///{tmp_path}/groups.db", threshold=0.7)
    # Each shares 130 of 262 shingles with the others (.5): alike enough for a band, not for a group.
    texts = {f"d{n}": words(0, 134) + " " + words(1_000 * n, 1_000 * n + 66) for n in range(1, 12)}
    assert set(namespace.groups.assign(texts).values()) == {None}
    again = namespace.groups.assign({f"again {name}": text for name, text in texts.items()})
    assert again == {f"again {name}": name for name in texts}


def test_groups_of_another_threshold_are_forgotten(url: str) -> None:
    before, beside = Namespace(url), Namespace(url, namespace_id=2)
    before.assign("a", words(0, 200))
    beside.assign("a", words(0, 200))
    assert Namespace(url, threshold=0.9).assign("b", words(0, 200)) is None
    assert Namespace(url, threshold=0.9).assign("c", words(0, 200)) == "b"
    assert beside.assign("c", words(0, 200)) == "a"


@pytest.mark.slow
def test_a_batch_asks_the_database_as_often_as_one_document_does(namespace: Namespace) -> None:
    statements: list[str] = []
    event.listen(namespace.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    namespace.assign("before", words(0, 20))
    statements.clear()
    namespace.assign("one", words(500, 700))
    alone = len(statements)
    namespace.groups.assign({f"d{n}": words(1_000 * n, 1_000 * n + 200) for n in range(64)})
    assert len(statements) - alone == alone <= 8
