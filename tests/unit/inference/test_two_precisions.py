from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inference.backends import load_embedder
from inference.embedding.two_precisions import TwoPrecisions
from inference.protocol import Embedder
from tests.support.models.tiny_bert import TEXTS, write_tiny_bert


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tiny_bert(tmp_path)
    return tmp_path


def in_precision(folder: Path, precision: str) -> Embedder:
    return load_embedder(str(folder), backend="onnx", threads=1, precision=precision)


def of(folder: Path, *, questions: str, passages: str) -> TwoPrecisions:
    return TwoPrecisions(lambda name: in_precision(folder, name), questions=questions, passages=passages)


@pytest.mark.parametrize(("questions", "passages"), [("int8", "fp32"), ("fp32", "int8")])
def test_each_side_has_its_own_precision(folder: Path, questions: str, passages: str) -> None:
    joined = of(folder, questions=questions, passages=passages)
    joined.warm()
    asked, stored = in_precision(folder, questions), in_precision(folder, passages)
    assert np.array_equal(joined.embed_questions(TEXTS), asked.embed_questions(TEXTS))
    assert np.array_equal(joined.embed_passages(TEXTS), stored.embed_passages(TEXTS))
    assert not np.array_equal(joined.embed_questions(TEXTS), stored.embed_questions(TEXTS))
    assert joined.fingerprint == stored.fingerprint
    assert joined.questions.fingerprint == asked.fingerprint != joined.fingerprint


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_equal_precisions_share_one_model(folder: Path, precision: str) -> None:
    loaded: list[str] = []

    def load(name: str) -> Embedder:
        loaded.append(name)
        return in_precision(folder, name)

    joined = TwoPrecisions(load, questions=precision, passages=precision)
    assert loaded == [precision]
    assert joined.questions is joined.passages
    assert joined.questions.fingerprint == joined.fingerprint


def test_other_properties_are_those_of_the_passage_embedder(folder: Path) -> None:
    joined: Embedder = of(folder, questions="int8", passages="fp32")
    seen: list[int] = []
    joined.embed_passages(TEXTS, progress=seen.append)
    assert sum(seen) == len(TEXTS)
    assert (joined.dimension, joined.max_pieces, joined.count_pieces("a word")) == (32, 14, 2)
