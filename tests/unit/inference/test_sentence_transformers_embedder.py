from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inference.embedders import OnnxEmbedder, SentenceTransformersEmbedder, TextEmbedder
from models.documents import Matrix
from models.errors import ModelMissing, WrongDeclaration
from tests.contracts.embedder import MODEL, ODD_TEXTS, PASSAGES, EmbedderContract
from tests.support.models.tiny_bert import TEXTS, WIDTH, write_tiny_bert
from tests.support.servers.services import need


def load(name: str = MODEL, **settings: Any) -> SentenceTransformersEmbedder:
    need("sentence_transformers", "`make torch` installs it")
    return SentenceTransformersEmbedder(name, threads=2, **settings)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
class TestSentenceTransformersEmbedder(EmbedderContract):
    load = staticmethod(load)

    @pytest.fixture(scope="class")
    @classmethod
    def onnx(cls) -> OnnxEmbedder:
        return OnnxEmbedder(MODEL, threads=2)

    def test_the_embedder_onnx_gives_the_same_vectors_to_1e_4(
        self, embedder: TextEmbedder, vectors: Matrix, onnx: OnnxEmbedder
    ) -> None:
        for expected, texts in ((vectors, PASSAGES), (embedder.embed_passages(ODD_TEXTS), ODD_TEXTS)):
            same = onnx.embed_passages(texts)
            assert np.abs(same - expected).max() < 1e-4
            assert (same * expected).sum(axis=1).min() > 1 - 1e-4
        assert embedder.fingerprint == onnx.fingerprint


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    ("model_type", "pooling"), [("bert", "mean"), ("xlm-roberta", "cls"), ("camembert", "max")]
)
def test_other_shapes_agree_too(tmp_path: Path, model_type: str, pooling: str) -> None:
    need("sentence_transformers", "`make torch` installs it")
    write_tiny_bert(tmp_path, model_type=model_type, pooling=pooling)
    expected = SentenceTransformersEmbedder(str(tmp_path), threads=1, device="cpu").embed_passages(TEXTS)
    assert np.abs(OnnxEmbedder(str(tmp_path), threads=1).embed_passages(TEXTS) - expected).max() < 1e-4


def test_without_pytorch_one_sentence_says_what_installs_it_and_limits_and_fingerprint_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    write_tiny_bert(tmp_path)
    folder = str(tmp_path)
    embedder = SentenceTransformersEmbedder(folder, threads=1)
    with pytest.raises(ModelMissing, match="make torch"):
        embedder.warm()
    assert (embedder.dimension, embedder.max_pieces, embedder.count_pieces("a word")) == (WIDTH, 14, 2)
    for pieces in (None, 10):
        embedder = SentenceTransformersEmbedder(folder, threads=1, max_pieces=pieces)
        assert embedder.fingerprint == OnnxEmbedder(folder, threads=1, max_pieces=pieces).fingerprint


def test_int8_is_refused_and_the_message_names_the_embedder_that_supports_it() -> None:
    with pytest.raises(WrongDeclaration, match=r"'int8'.*there are: fp32"):
        SentenceTransformersEmbedder(MODEL, threads=1, precision="int8")
