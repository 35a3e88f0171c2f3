from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inference.backends import TwoPrecisions, load_embedder
from inference.protocol import Embedder
from tests.support.models.tiny_bert import TEXTS, write_tiny_bert


class Loader:
    """Loads one tiny model, in any precision."""

    def __init__(self, folder: Path) -> None:
        write_tiny_bert(folder)
        self.folder = folder
        self.loaded: list[str] = []

    def __call__(self, precision: str) -> Embedder:
        self.loaded.append(precision)
        return load_embedder(str(self.folder), backend="onnx", threads=1, precision=precision)


@pytest.mark.parametrize(("questions", "passages"), [("int8", "fp32"), ("fp32", "int8")])
def test_each_side_has_its_own_precision(tmp_path: Path, questions: str, passages: str) -> None:
    load = Loader(tmp_path)
    joined = TwoPrecisions(load, questions=questions, passages=passages)
    joined.warm()
    for_questions, for_passages = load(questions), load(passages)
    assert np.array_equal(joined.embed_questions(TEXTS), for_questions.embed_questions(TEXTS))
    assert np.array_equal(joined.embed_passages(TEXTS), for_passages.embed_passages(TEXTS))
    assert not np.array_equal(joined.embed_questions(TEXTS), for_passages.embed_questions(TEXTS))
    assert joined.fingerprint == for_passages.fingerprint
    assert joined.questions.fingerprint == for_questions.fingerprint != joined.fingerprint


def test_equal_precisions_share_one_model(tmp_path: Path) -> None:
    load = Loader(tmp_path)
    for precision in ("fp32", "int8"):
        joined = TwoPrecisions(load, questions=precision, passages=precision)
        assert joined.questions is joined.passages
        assert joined.questions.fingerprint == joined.fingerprint
    assert load.loaded == ["fp32", "int8"]


def test_other_properties_are_those_of_the_passage_embedder(tmp_path: Path) -> None:
    joined: Embedder = TwoPrecisions(Loader(tmp_path), questions="int8", passages="fp32")
    seen: list[int] = []
    joined.embed_passages(TEXTS, progress=seen.append)
    assert sum(seen) == len(TEXTS)
    assert (joined.dimension, joined.max_pieces, joined.count_pieces("a word")) == (32, 14, 2)
