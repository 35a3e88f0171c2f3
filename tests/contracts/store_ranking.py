"""What every store promises about its rankings."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from models.documents import Document, Passage, PassageText
from models.errors import InvalidAnswer
from search.protocol import ScoresText
from tests.contracts.store_documents import EAST, MANIFEST, NORTH, document, questions, unit
from tests.contracts.store_searches import Searching, asking
from tests.support.stores.one_engine import OneEngine, embedded_store
from tests.support.stores.passages import standard_library_passages

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


class RankingContract(Searching):
    """Text and vector rankings."""

    def test_a_hit_carries_what_fusion_needs(self, store: OneEngine) -> None:
        metadata = {"source_type": "faq", "published_at": "2024-05-01", "other": 1}
        stored = replace(document("a", "pear", metadata=metadata), near_duplicate_group="z")
        store.upsert("ns", [stored])
        for ranking in self.rankings(store, "pear", depth=1):
            (hit,) = ranking.hits
            assert (hit.passage_id, hit.document_id) == ("a#0", "a")
            assert (hit.source_type, hit.published_at) == ("faq", "2024-05-01")
            assert (hit.content_hash, hit.near_duplicate_group) == ("hash of a", "z")

    def test_texts_and_vectors_are_read_by_passage_id_and_unknown_ids_left_out(
        self, store: OneEngine
    ) -> None:
        metadata = {"tags": ["x", {"y": None}], "über": "ß"}
        passages = (Passage("a#0", 0, "Häuser\n", "Install > Linux", 5, 12, NORTH),)
        store.upsert("ns", [Document("a", "docs", "T", passages, metadata)])
        expected = PassageText("a#0", "a", "T", "Install > Linux", "Häuser\n", metadata)
        assert store.texts("ns", ["a#0", "a#0", "a#1", "z"]) == {"a#0": expected}
        assert store.texts("ns", []) == {}
        if self.has_vectors:
            vectors = store.vectors("ns", ["a#0", "a#1"])
            assert list(vectors) == ["a#0"]
            assert vectors["a#0"].dtype == np.float32
            assert vectors["a#0"].tolist() == NORTH.tolist()
        assert store.vectors("ns", []) == {}

    def test_depth_counts_documents_not_passages(self, store: OneEngine) -> None:
        others = [document(f"d{i}", "pear pie with cream", vectors=(unit(5, 1, 0, 0),)) for i in range(5)]
        store.upsert("ns", [document("long", *["pear"] * 40), *others])
        for ranking in self.rankings(store, "pear", depth=3):
            assert ranking.hits[0].document_id == "long"
            assert len({hit.document_id for hit in ranking.hits}) >= 3
        for ranking in self.rankings(store, "pear", depth=1_000):
            assert len(ranking.hits) == 45, "all that match"

    def test_ties_are_broken_by_passage_id_wherever_the_ranking_is_cut(self, store: OneEngine) -> None:
        names = [f"d{i:02}" for i in range(60)]
        for part in (names[40:], names[:20], names[20:40]):
            store.upsert("ns", [document(name, "pear") for name in reversed(part)])
        everything = [f"{name}#0" for name in names]
        for depth in (1, 7, 60):
            for ranking in self.rankings(store, "pear", depth=depth):
                assert [hit.passage_id for hit in ranking.hits][:depth] == everything[:depth]


class ManyDocumentsContract(Searching):
    """Rankings of 2,000 documents."""

    @pytest.mark.slow
    def test_2_000_documents_are_ranked_and_read(self, store: OneEngine) -> None:
        for first in (0, 1_000):
            turned = ((i, unit(10_000, i, 0, 0)) for i in range(first, first + 1_000))
            store.upsert("ns", [document(f"d{i:05}", "pear", vectors=(vector,)) for i, vector in turned])
        for ranking in self.rankings(store, "pear", depth=1_000):
            assert [hit.document_id for hit in ranking.hits][:1_000] == [f"d{i:05}" for i in range(1_000)]
        assert len(store.revisions("ns", "docs")) == 2_000


class TextContract(Searching):
    """BM25 with any analyser."""

    def test_a_list_of_texts_gets_a_ranking_each_in_order(self, store: OneEngine) -> None:
        store.upsert("ns", [document("a", "apple"), document("b", "pear")])
        texts = store.search_text("ns", ["pear", "nothing", "apple", ""], asking(depth=5))
        assert [[hit.document_id for hit in ranking.hits] for ranking in texts] == [["b"], [], ["a"], []]
        assert store.search_text("ns", [], asking(depth=5)) == []

    def test_given_passages_get_the_scores_that_a_search_gives_them(self, store: OneEngine) -> None:
        if not isinstance(store, ScoresText):
            pytest.skip("the store cannot score given passages")
        store.upsert("ns", [document(f"d{i}", "pear " * (i + 1) + "apple") for i in range(4)])
        store.upsert("ns", [document("other", "plum", "pear plum")])
        [ranking] = store.search_text("ns", ["pear apple"], asking(depth=10))
        known = {hit.passage_id: hit.score for hit in ranking.hits}
        wanted = ["d3#0", "other#1", "other#0", "d0#0", "nowhere#0"]
        scored = store.score_text("ns", ["pear apple", "", "pear"], [wanted, wanted, []], timeout_s=30)
        assert scored[0] == pytest.approx({name: known[name] for name in ("d3#0", "other#1", "d0#0")})
        assert scored[1:] == [{}, {}]

    def test_of_equal_passages_the_one_whose_whole_document_has_more_of_the_question_is_first(
        self, store: OneEngine
    ) -> None:
        for more, less in (("a", "b"), ("b", "a")):
            store.upsert("ns", [document(more, "pear jam", "pear pie", "pear tree", metadata={"kind": "x"})])
            store.upsert("ns", [document(less, "pear jam", "fig pie", "plum tree", metadata={"kind": "x"})])
            assert self.passage_ids(store, "pear jam", depth=1) == [f"{more}#0"], "replaced whole"
            assert self.passage_ids(store, "pear jam", depth=1, filters={"kind": "x"}) == [f"{more}#0"]
            assert self.passage_ids(store, "pear jam") == [f"{more}#0", f"{less}#0", f"{more}#1", f"{more}#2"]

    def test_a_rarer_word_counts_more_and_a_repeated_one_too(self, store: OneEngine) -> None:
        store.upsert("ns", [document(f"c{i}", "common filler") for i in range(5)])
        store.upsert("ns", [document("r", "rare filler"), document("k", "common filler")])
        assert self.passage_ids(store, "common rare", depth=1) == ["r#0"]
        # With 7 passages: ln(1 + 6.5/1.5) = 1.67 for the rare word, ln(1 + 1.5/6.5) = .21 for the common one.
        (once,) = store.search_text("ns", ["common"], asking(depth=10))
        (thrice,) = store.search_text("ns", ["common common common"], asking(depth=10))
        assert thrice.hits[0].score == pytest.approx(3 * once.hits[0].score, rel=1e-4)

    def test_a_shallow_ranking_is_the_beginning_of_a_deep_one(self, store: OneEngine) -> None:
        chance = random.Random(11)

        def text(words: int) -> str:
            return " ".join(f"w{chance.randrange(60)}" for _ in range(words))

        texts = [text(chance.choice([3, 20, 60])) for _ in range(400)]
        store.upsert("ns", [document(f"d{i:04}", text) for i, text in enumerate(texts)])
        questions = [text(words) for words in (1, 2, 3, 8)]
        deep = store.search_text("ns", questions, asking(depth=1_000))
        for depth in (1, 10, 100):
            shallow = store.search_text("ns", questions, asking(depth=depth))
            assert [ranking.hits[:depth] for ranking in shallow] == [ranking.hits[:depth] for ranking in deep]

    def test_the_title_is_searched_with_the_text(self, store: OneEngine) -> None:
        store.upsert("ns", [document("a", "nothing else", title="Zebra"), document("b", "nothing else")])
        assert self.passage_ids(store, "zebra") == ["a#0"]

    def test_of_identifiers_with_the_same_parts_the_one_in_the_order_of_the_question_is_first(
        self, store: OneEngine
    ) -> None:
        for same_parts in (("2.10.1", "1.10.2"), ("AB-123/4", "AB-4/123"), ("2024-03-12", "2024-12-03")):
            store.upsert("ns", [document(f"d{place}", text) for place, text in enumerate(same_parts)])
            for place, text in enumerate(same_parts):
                assert self.passage_ids(store, f"{text} or so")[0] == f"d{place}#0"

    def test_query_syntax_in_a_question_is_read_as_plain_words(self, store: OneEngine) -> None:
        store.create("other", self.manifest)
        store.upsert("other", [document("hidden", "secret 秘密 other")])
        store.upsert("ns", [document("a", "a public secret"), document("b", "unrelated")])
        for text in HOSTILE:
            expected = {"a#0"} if "secret" in text else set()
            assert set(self.passage_ids(store, text, depth=1_000)) == expected, text[:80]


class EmbeddedScoresContract(Searching):
    """For stores that have the embedded store's words and scores."""

    forgets_at_once: ClassVar[bool] = True
    """Whether a passage that was replaced or deleted counts no more at once."""

    @pytest.mark.parametrize("language", ["en", "it", "none"])
    def test_scores_by_text_are_those_of_the_embedded_store(
        self, store: OneEngine, tmp_path: Path, language: str
    ) -> None:
        texts = standard_library_passages(120)
        documents = [
            document(f"d{n}", *texts[n : n + 1 + n % 7], title=texts[-n][:40]) for n in range(0, 113, 3)
        ]
        queries = ["the", "return a list of files", "a file object, or None", "getUserName", texts[7], ""]
        manifest = replace(self.manifest, language=language)
        with closing(embedded_store(tmp_path)) as embedded:
            for one in (embedded, store):
                one.create("scored", manifest)
            embedded.upsert("scored", documents)
            if self.forgets_at_once:
                store.upsert("scored", [document(one.document_id, "a file", "a list") for one in documents])
                store.upsert("scored", [document("late", "a file of its own")])
                store.delete("scored", ["late"])
            store.upsert("scored", documents)
            for depth in (1, 1_000):
                expected = embedded.search_text("scored", queries, asking(depth=depth))
                rankings = store.search_text("scored", queries, asking(depth=depth))
                for ours, theirs in zip(rankings, expected, strict=True):
                    known = {hit.passage_id: hit.score for hit in theirs.hits}
                    scores = {hit.passage_id: hit.score for hit in ours.hits}
                    # Some stores sum in 32 bits, and all round to five decimals.
                    assert scores == pytest.approx(known, rel=1e-4, abs=2e-5)
                    assert ours.total_matches == theirs.total_matches


class AnalyserContract(Searching):
    """The default analyser."""

    def test_words_are_stemmed_and_folded_and_stop_words_dropped(self, store: OneEngine) -> None:
        store.upsert("ns", [document("a", "The running CAFÉS"), document("b", "of the and")])
        assert self.passage_ids(store, "run cafe") == ["a#0"]
        assert self.passage_ids(store, "the of and") == []

    def test_chinese_japanese_and_korean_are_found_by_any_two_characters(self, store: OneEngine) -> None:
        store.upsert("ns", [document("zh", "今天天气很好"), document("ja", "東京都に住んでいます")])
        store.upsert("ns", [document("ko", "한국어문서")])
        assert self.passage_ids(store, "天气") == ["zh#0"]
        assert self.passage_ids(store, "東京") == ["ja#0"]
        assert self.passage_ids(store, "문서") == ["ko#0"]
        assert self.passage_ids(store, "都") == ["ja#0"]

    def test_words_are_those_that_a_person_reads(self, store: OneEngine) -> None:
        texts = ("Sparkolin™", "pass\u200bword", "**D**eposit", "M&uuml;nchen", "İzmir", "दिल्ली", "🚀")
        store.upsert("ns", [document(f"d{place}", text) for place, text in enumerate(texts)])
        for place, text in enumerate(("Sparkolin", "password", "deposit", "München", "izmir", "दिल्ली", "🚀")):
            assert self.passage_ids(store, text) == [f"d{place}#0"]
        assert self.passage_ids(store, "दिल") == []


class VectorContract(Searching):
    """Cosine similarity."""

    def test_a_list_of_vectors_gets_a_ranking_each_in_order(self, store: OneEngine) -> None:
        tilted = unit(3, 4, 0, 0)  # its cosine with EAST is 3/5, with NORTH 4/5
        store.upsert("ns", [document("a", "apple"), document("b", "pear", vectors=(tilted,))])
        vectors = store.search_vectors("ns", questions(NORTH, EAST), asking(depth=5))
        assert [[hit.document_id for hit in ranking.hits] for ranking in vectors] == [["b", "a"], ["a", "b"]]
        scores = [hit.score for ranking in vectors for hit in ranking.hits]
        assert scores == pytest.approx([0.8, 0.0, 1.0, 0.6], abs=1e-6), "cosines are exact"
        assert store.search_vectors("ns", np.zeros((0, 4), np.float32), asking(depth=5)) == []

    def test_a_ranking_by_vectors_says_how_well_the_encoder_knows_the_language(
        self, store: OneEngine
    ) -> None:
        store.create("italian", replace(MANIFEST, known_words=0.14))
        store.create("unmeasured", MANIFEST)
        for namespace, known_words in (("italian", 0.14), ("unmeasured", None)):
            store.upsert(namespace, [document("a", "mela")])
            [ranking] = store.search_vectors(namespace, questions(EAST), asking(depth=1))
            assert (len(ranking.hits), ranking.known_words) == (1, known_words)
        # Longer documents have come.
        store.create("unmeasured", replace(MANIFEST, known_words=0.9))
        store.upsert("unmeasured", [document("b", "pera")])
        [ranking] = store.search_vectors("unmeasured", questions(EAST), asking(depth=1))
        assert ranking.known_words == 0.9

    def test_vectors_of_2_001_numbers_are_searched(self, store: OneEngine) -> None:
        """A graph of pgvector takes no more than 2,000."""
        vectors = np.eye(3, 2_001, dtype=np.float32)
        store.create("long", replace(self.manifest, dimension=2_001))
        store.upsert("long", [document(f"d{n}", "pear", vectors=(vectors[n],)) for n in range(3)])
        [ranking] = store.search_vectors("long", vectors[1:2], asking(depth=1))
        assert ranking.hits[0].document_id == "d1"

    def test_a_question_vector_of_another_dimension_is_refused_naming_both(self, store: OneEngine) -> None:
        store.upsert("ns", [document("a", "pear")])
        with pytest.raises(InvalidAnswer, match=r"3.*4"):
            store.search_vectors("ns", np.ones((1, 3), np.float32), asking(depth=1))
        with pytest.raises(InvalidAnswer):
            store.search_vectors("ns", np.full((1, 4), np.nan, np.float32), asking(depth=1))
