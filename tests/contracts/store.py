"""What every store promises.  Inherit, provide a `store` fixture, and the promises are tested."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from chorale_client.words import Reason

from models.documents import Document, Manifest, Matrix, Passage, PassageText, Vector
from models.errors import BadIndex, InvalidAnswer, ManifestMismatch
from search.protocol import Store

MANIFEST = Manifest(
    splitter="by hand", language="en", analyser="chorale-lexical-1", embedder="by hand", dimension=4
)


def unit(*values: float) -> Vector:
    vector = np.array(values, np.float32)
    return vector / np.linalg.norm(vector)


def questions(*vectors: Vector) -> Matrix:
    return np.stack(vectors)


EAST, NORTH, UP, LATER = (unit(*row) for row in np.eye(4))


def document(
    name: str,
    *texts: str,
    vectors: tuple[Vector, ...] = (),
    title: str = "",
    source: str = "docs",
    metadata: Mapping[str, Any] | None = None,
    revision: str = "1",
) -> Document:
    passages = tuple(
        Passage(f"{name}#{i}", i, text, vector=vectors[i] if vectors else EAST, end=len(text))
        for i, text in enumerate(texts)
    )
    return Document(name, source, title, passages, metadata or {}, f"hash of {name}", None, revision)


HOSTILE = (
    "",
    " \t\n",
    "\x00\x01\x1f\x7f secret\x00",
    "(" * 8_192,
    "(" * 5_000 + "secret" + ")" * 3_000,
    "secret AND NOT (OR",
    'text:secret "secret',
    "*",
    "secre?  secre* /secr.*/ secret~2 secret^9",
    "[a TO z] {1 TO *} rid:>0",
    "+secret -secret !secret && ||",
    "' OR 1=1; DROP TABLE chorale_passage; --",
    "../../etc/passwd %00 ${jndi:x} {{7*7}}",
    "\ud800 lone \udfff surrogates secret",
    "секрет ΜΥΣΤΙΚΌ סוד سر रहस्य ความลับ 秘密 シークレット 비밀",
    "\u202esecret\u202c \u200b\ufeff e\u0301" + "\u0301" * 500,
    "🔥👩‍👩‍👧‍👦🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "x" * 8_192,
    " ".join(f"t{i}" for i in range(1_600))[:8_192],
    "a" + "\u0300" * 8_191,
)


FILTERED: dict[str, dict[str, Any]] = {
    "a": {"year": 2019, "tags": ["x", "y"], "published_at": "2024-05-01", "draft": True},
    "b": {"year": 2020, "tags": "x", "published_at": "2024-05-01T23:30:00Z"},
    "c": {"year": 2021.5, "published_at": "2024-05-02T00:30:00+01:00", "draft": False},
    "d": {"tags": [], "published_at": "2024-05-02", "year": None},
}


class StoreContract:
    """For stores that hold documents and search them both ways."""

    @pytest.fixture(autouse=True)
    def _namespace(self, store: Store) -> None:
        store.create("ns", MANIFEST)

    def found(self, store: Store, text: str, **options: Any) -> list[str]:
        (ranking,) = store.search_text("ns", [text], **{"depth": 10, "timeout_s": 30.0, **options})
        return [hit.passage_id for hit in ranking.hits]

    def near(self, store: Store, vector: Vector, **options: Any) -> list[str]:
        options = {"depth": 10, "timeout_s": 30.0, **options}
        (ranking,) = store.search_vectors("ns", questions(vector), **options)
        return [hit.passage_id for hit in ranking.hits]

    # Namespaces

    def test_an_unknown_namespace_is_a_bad_index_that_names_it(self, store: Store) -> None:
        calls: list[Callable[[], object]] = [
            lambda: store.search_text("nowhere", ["a"], depth=1),
            lambda: store.search_vectors("nowhere", questions(EAST), depth=1),
            lambda: store.texts("nowhere", ["a"]),
            lambda: store.vectors("nowhere", ["a"]),
            lambda: store.generation("nowhere"),
            lambda: store.upsert("nowhere", [document("a", "text")]),
        ]
        for call in calls:
            with pytest.raises(BadIndex, match="nowhere") as raised:
                call()
            assert raised.value.reason == Reason.BAD_INDEX

    def test_an_empty_namespace_has_no_hits(self, store: Store) -> None:
        assert self.found(store, "anything") == []
        assert self.near(store, EAST) == []

    def test_a_namespace_made_twice_in_the_same_way_stays_as_it_is(self, store: Store) -> None:
        store.upsert("ns", [document("a", "kept")])
        assert store.create("ns", MANIFEST) == MANIFEST
        assert self.found(store, "kept") == ["a#0"]

    def test_a_namespace_built_differently_is_refused_with_what_differs_and_what_mends_it(
        self, store: Store
    ) -> None:
        with pytest.raises(ManifestMismatch) as raised:
            store.create("ns", replace(MANIFEST, embedder="another", language="it"))
        said = str(raised.value)
        assert "embedder is 'by hand', asked for 'another'" in said
        assert "language is 'en', asked for 'it'" in said
        assert "splitter" not in said
        assert "chorale index --rebuild" in said

    def test_namespaces_are_listed_with_their_counts(self, store: Store) -> None:
        store.create("other", MANIFEST)
        generation = store.upsert("ns", [document("a", "one", "two"), document("b", "three")])
        states = {state.name: state for state in store.namespaces()}
        assert sorted(states) == ["ns", "other"]
        assert (states["ns"].documents, states["ns"].passages) == (2, 3)
        assert (states["ns"].generation, states["ns"].manifest) == (generation, MANIFEST)
        assert (states["other"].documents, states["other"].passages) == (0, 0)

    def test_no_search_sees_another_namespace(self, store: Store) -> None:
        store.create("other", MANIFEST)
        store.upsert("other", [document("b", "secret")])
        store.upsert("ns", [document("a", "public")])
        assert self.found(store, "secret public") == ["a#0"]
        assert self.near(store, EAST) == ["a#0"]
        assert store.texts("ns", ["b#0"]) == {}
        assert store.vectors("ns", ["b#0"]) == {}
        assert store.delete("ns", ["b"]) == 0

    def test_a_dropped_namespace_is_gone_and_its_name_never_repeats_a_generation(self, store: Store) -> None:
        before = store.upsert("ns", [document("a", "old")])
        assert self.found(store, "old") == ["a#0"]
        assert store.drop("ns")
        assert not store.drop("ns")
        with pytest.raises(BadIndex):
            self.found(store, "old")
        store.create("ns", MANIFEST)
        assert self.found(store, "old") == []
        assert store.upsert("ns", [document("a", "new")]) > before

    # Writing

    def test_the_generation_rises_once_a_batch_and_readers_see_the_batch_then(self, store: Store) -> None:
        first = store.generation("ns")
        for n in range(1, 4):
            assert store.upsert("ns", [document(f"d{n}", "word"), document(f"e{n}", "word")]) == first + n
            assert store.generation("ns") == first + n
            assert len(self.found(store, "word")) == 2 * n
        store.delete("ns", ["d1", "d2"])
        assert store.generation("ns") == first + 4
        assert store.upsert("ns", []) == first + 4
        assert store.delete("ns", ["d1", "never there"]) == 0
        assert store.generation("ns") == first + 4

    def test_a_document_is_replaced_whole(self, store: Store) -> None:
        store.upsert("ns", [document("a", "apple", "pear", "plum"), document("b", "pear")])
        assert len(self.found(store, "pear")) == 2
        assert len(self.near(store, EAST)) == 4
        store.upsert("ns", [document("a", "cherry", vectors=(UP,), title="Fruit")])
        assert self.found(store, "apple plum") == []
        assert self.found(store, "pear") == ["b#0"]
        assert self.found(store, "cherry") == ["a#0"]
        assert self.near(store, UP) == ["a#0", "b#0"]
        assert store.texts("ns", ["a#0", "a#1"]) == {
            "a#0": PassageText("a#0", "a", "Fruit", "", "cherry", {})
        }

    def test_the_same_batch_twice_changes_no_hit(self, store: Store) -> None:
        batch = [document("a", "apple", "pear"), document("b", "pear")]
        store.upsert("ns", batch)
        once = store.search_text("ns", ["pear"], depth=10)
        store.upsert("ns", batch)
        assert store.search_text("ns", ["pear"], depth=10) == once
        assert [(state.documents, state.passages) for state in store.namespaces()] == [(2, 3)]

    def test_deleted_documents_are_found_no_more(self, store: Store) -> None:
        store.upsert("ns", [document(name, "pear") for name in "abc"])
        assert len(self.found(store, "pear")) == len(self.near(store, EAST)) == 3
        assert store.delete("ns", ["a", "c", "unknown"]) == 2
        assert self.found(store, "pear") == ["b#0"]
        assert self.near(store, EAST) == ["b#0"]
        assert store.vectors("ns", ["a#0"]) == {}

    def test_a_batch_with_one_bad_vector_changes_nothing(self, store: Store) -> None:
        generation = store.upsert("ns", [document("a", "old")])
        short = document("b", "new", vectors=(np.ones(1, np.float32),))
        with pytest.raises(InvalidAnswer, match=r"\(1,\).*4"):
            store.upsert("ns", [document("a", "new"), short])
        with pytest.raises(InvalidAnswer, match="nan"):
            store.upsert("ns", [document("a", "new", vectors=(np.full(4, np.nan, np.float32),))])
        assert store.generation("ns") == generation
        assert self.found(store, "new") == []
        assert self.found(store, "old") == ["a#0"]

    def test_revisions_are_those_of_one_source(self, store: Store) -> None:
        store.upsert("ns", [document("a", "x", revision="r1"), document("b", revision="r2")])
        store.upsert("ns", [document("c", "x", source="elsewhere", revision="r3")])
        store.upsert("ns", [document("a", "x", revision="r4")])
        assert store.revisions("ns", "docs") == {"a": "r4", "b": "r2"}
        assert store.revisions("ns", "elsewhere") == {"c": "r3"}
        assert store.revisions("ns", "unknown") == {}

    # What a hit carries

    def test_a_hit_carries_what_fusion_needs(self, store: Store) -> None:
        metadata = {"source_type": "faq", "published_at": "2024-05-01", "other": 1}
        held = replace(document("a", "pear", metadata=metadata), near_duplicate_group="z")
        store.upsert("ns", [held])
        for ranking in (
            store.search_text("ns", ["pear"], depth=1)[0],
            store.search_vectors("ns", questions(EAST), depth=1)[0],
        ):
            (hit,) = ranking.hits
            assert (hit.passage_id, hit.document_id) == ("a#0", "a")
            assert (hit.source_type, hit.published_at) == ("faq", "2024-05-01")
            assert (hit.content_hash, hit.near_duplicate_group) == ("hash of a", "z")

    def test_texts_and_vectors_come_by_passage_id_and_unknown_ids_are_left_out(self, store: Store) -> None:
        metadata = {"tags": ["x", {"y": None}], "über": "ß"}
        passages = (Passage("a#0", 0, "Häuser\n", "Install > Linux", 5, 12, NORTH),)
        store.upsert("ns", [Document("a", "docs", "T", passages, metadata)])
        expected = PassageText("a#0", "a", "T", "Install > Linux", "Häuser\n", metadata)
        assert store.texts("ns", ["a#0", "a#0", "a#1", "z"]) == {"a#0": expected}
        vectors = store.vectors("ns", ["a#0", "a#1"])
        assert list(vectors) == ["a#0"]
        assert vectors["a#0"].dtype == np.float32
        assert vectors["a#0"].tolist() == NORTH.tolist()
        assert store.texts("ns", []) == {}
        assert store.vectors("ns", []) == {}

    # Ranking

    def test_a_list_of_questions_gets_a_ranking_each_in_order(self, store: Store) -> None:
        store.upsert("ns", [document("a", "apple"), document("b", "pear", vectors=(NORTH,))])
        texts = store.search_text("ns", ["pear", "nothing", "apple", ""], depth=5)
        assert [[hit.document_id for hit in ranking.hits] for ranking in texts] == [["b"], [], ["a"], []]
        vectors = store.search_vectors("ns", questions(NORTH, EAST), depth=5)
        assert [[hit.document_id for hit in ranking.hits] for ranking in vectors] == [["b", "a"], ["a", "b"]]
        assert store.search_text("ns", [], depth=5) == []

    def test_cosines_are_exact(self, store: Store) -> None:
        store.upsert("ns", [document("a", "x", vectors=(unit(3, 4, 0, 0),)), document("b", "x")])
        (ranking,) = store.search_vectors("ns", questions(EAST), depth=5)
        assert [hit.document_id for hit in ranking.hits] == ["b", "a"]
        assert [hit.score for hit in ranking.hits] == pytest.approx([1.0, 0.6], abs=1e-6)

    def test_a_rarer_word_counts_more_and_a_repeated_one_too(self, store: Store) -> None:
        store.upsert("ns", [document(f"c{i}", "common filler") for i in range(5)])
        store.upsert("ns", [document("r", "rare filler"), document("k", "common filler")])
        assert self.found(store, "common rare", depth=1) == ["r#0"]
        # Of 7: ln(1 + 6.5/1.5) = 1.67 for the rare word, ln(1 + 1.5/6.5) = .21 for the common one.
        (once,) = store.search_text("ns", ["common"], depth=10)
        (thrice,) = store.search_text("ns", ["common common common"], depth=10)
        assert thrice.hits[0].score == pytest.approx(3 * once.hits[0].score, rel=1e-4)

    def test_words_are_stemmed_folded_and_stop_words_are_no_terms(self, store: Store) -> None:
        store.upsert("ns", [document("a", "The running CAFÉS"), document("b", "of the and")])
        assert self.found(store, "run cafe") == ["a#0"]
        assert self.found(store, "the of and") == []

    def test_the_title_is_searched_with_the_text(self, store: Store) -> None:
        store.upsert("ns", [document("a", "nothing else", title="Zebra"), document("b", "nothing else")])
        assert self.found(store, "zebra") == ["a#0"]

    def test_chinese_japanese_and_korean_are_found_by_any_two_characters(self, store: Store) -> None:
        store.upsert("ns", [document("zh", "今天天气很好"), document("ja", "東京都に住んでいます")])
        store.upsert("ns", [document("ko", "한국어문서")])
        assert self.found(store, "天气") == ["zh#0"]
        assert self.found(store, "東京") == ["ja#0"]
        assert self.found(store, "문서") == ["ko#0"]

    def test_depth_counts_documents_not_passages(self, store: Store) -> None:
        long = document("long", *["pear"] * 40)
        store.upsert(
            "ns",
            [
                long,
                *(document(f"d{i}", "pear pie with cream", vectors=(unit(5, 1, 0, 0),)) for i in range(5)),
            ],
        )
        for ranking in (
            store.search_text("ns", ["pear"], depth=3)[0],
            store.search_vectors("ns", questions(EAST), depth=3)[0],
        ):
            assert ranking.hits[0].document_id == "long"
            assert len({hit.document_id for hit in ranking.hits}) >= 3

    def test_all_that_match_come_when_there_are_fewer_than_depth(self, store: Store) -> None:
        store.upsert("ns", [document("a", "pear", "pear", "plum"), document("b", "pear")])
        assert sorted(self.found(store, "pear", depth=1_000)) == ["a#0", "a#1", "b#0"]
        assert len(self.near(store, EAST, depth=1_000)) == 4

    def test_ties_are_broken_by_passage_id_wherever_the_ranking_is_cut(self, store: Store) -> None:
        names = [f"d{i:02}" for i in range(60)]
        for part in (names[40:], names[:20], names[20:40]):
            store.upsert("ns", [document(name, "pear") for name in reversed(part)])
        everything = [f"{name}#0" for name in names]
        for depth in (1, 7, 60):
            assert self.found(store, "pear", depth=depth)[:depth] == everything[:depth]
            assert self.near(store, EAST, depth=depth)[:depth] == everything[:depth]

    # Filters and exclusions

    @pytest.mark.parametrize(
        ("filters", "expected"),
        [
            ({"year": 2020}, "b"),
            ({"year": [2019, 2020, 1]}, "ab"),
            ({"year": {"gte": 2020}}, "bc"),
            ({"year": {"gt": 2019, "lt": 2021}}, "b"),
            ({"tags": "x"}, "ab"),
            ({"tags": ["y", "z"]}, "a"),
            ({"tags": {"exists": True}}, "ab"),
            ({"tags": {"exists": False}}, "cd"),
            ({"tags": {"not": "y"}}, "bcd"),
            ({"tags": {"contains": "X"}}, "ab"),
            ({"draft": True}, "a"),
            ({"draft": False}, "c"),
            ({"published_at": {"lte": "2024-05-01"}}, "abc"),
            ({"published_at": {"gt": "2024-05-01"}}, "d"),
            ({"published_at": {"gte": "2024-05-01T23:00:00Z", "lt": "2024-05-02"}}, "bc"),
            ({"published_at": "2024-05-01"}, "abc"),
            ({"year": {"gte": 2020}, "tags": "x"}, "b"),
            ({"source": "docs"}, "abcd"),
            ({"year": 3000}, ""),
        ],
    )
    def test_filters_are_exact_in_both_branches(
        self, store: Store, filters: dict[str, Any], expected: str
    ) -> None:
        held = [document(name, "pear", metadata=metadata) for name, metadata in FILTERED.items()]
        store.upsert("ns", held)
        passages = [f"{name}#0" for name in expected]
        assert self.found(store, "pear", filters=filters) == passages
        assert self.near(store, EAST, filters=filters) == passages

    def test_an_unknown_field_matches_nothing_and_is_named(self, store: Store) -> None:
        store.upsert("ns", [document("a", "pear", metadata={"year": 1})])
        for ranking in (
            *store.search_text("ns", ["pear", "apple"], depth=5, filters={"year": 1, "yaer": 2020}),
            *store.search_vectors("ns", questions(EAST), depth=5, filters={"yaer": {"not": 1}}),
        ):
            assert ranking.hits == ()
            assert ["yaer" in warning for warning in ranking.warnings] == [True]
        (known,) = store.search_text("ns", ["pear"], depth=5, filters={"year": 2})
        assert known.warnings == ()

    def test_a_filter_changes_no_score(self, store: Store) -> None:
        store.upsert("ns", [document(f"d{i}", "pear " * (i + 1), metadata={"n": i % 3}) for i in range(30)])
        (free,) = store.search_text("ns", ["pear"], depth=30)
        (filtered,) = store.search_text("ns", ["pear"], depth=30, filters={"n": 1})
        assert filtered.hits == tuple(hit for hit in free.hits if int(hit.document_id[1:]) % 3 == 1)
        assert len(filtered.hits) == 10

    def test_a_filter_follows_what_is_written(self, store: Store) -> None:
        store.upsert("ns", [document("a", "pear", metadata={"n": 1})])
        assert self.found(store, "pear", filters={"n": 1}) == ["a#0"]
        store.upsert(
            "ns", [document("a", "pear", metadata={"n": 2}), document("b", "pear", metadata={"n": 1})]
        )
        assert self.found(store, "pear", filters={"n": 1}) == ["b#0"]
        assert self.near(store, EAST, filters={"n": 2}) == ["a#0"]

    def test_excluded_documents_make_room_for_others(self, store: Store) -> None:
        store.upsert("ns", [document(f"d{i}", "pear") for i in range(8)])
        options: dict[str, Any] = {"exclude_ids": ("d0", "d2", "unknown"), "depth": 2}
        assert self.found(store, "pear", **options)[:2] == ["d1#0", "d3#0"]
        assert self.near(store, EAST, **options)[:2] == ["d1#0", "d3#0"]

    # Nonsense

    def test_a_question_vector_of_another_length_is_refused_with_both(self, store: Store) -> None:
        store.upsert("ns", [document("a", "pear")])
        with pytest.raises(InvalidAnswer, match=r"3.*4"):
            store.search_vectors("ns", np.ones((1, 3), np.float32), depth=1)
        with pytest.raises(InvalidAnswer):
            store.search_vectors("ns", np.full((1, 4), np.nan, np.float32), depth=1)

    @pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
    def test_hostile_text_is_only_words(self, store: Store, text: str) -> None:
        store.create("other", MANIFEST)
        store.upsert("other", [document("hidden", "secret 秘密 other")])
        store.upsert("ns", [document("a", "a public secret"), document("b", "unrelated")])
        expected = {"a#0"} if "secret" in text.replace("secret~2", "secret") else set()
        assert set(self.found(store, text, depth=1_000)) == expected
