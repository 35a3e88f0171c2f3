"""What a model's folder says, what a known model gets where its folder says nothing, and its word pieces."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.embedders import OnnxEmbedder, SentenceTransformersEmbedder
from inference.known_models import known_prompts
from inference.onnx.word_pieces import WordPieces, batches_by_length, padded, whole_characters
from inference.sentence_model import read_sentence_model
from inference.vectors import POOLINGS, pool
from models.errors import ModelMissing, NotConfigured, WrongDeclaration
from tests.support.models.reference_bert import reference_vectors
from tests.support.models.tiny_bert import TEXTS, write_tiny_bert


def test_a_folder_is_read_with_its_pooling_dimension_and_length(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path, pooling="cls")
    model = read_sentence_model(tmp_path)
    assert (model.pooling, model.dimension, model.max_length, model.positions) == ("cls", 32, 16, 40)
    assert [kind for kind, _ in model.modules] == ["Pooling", "Normalize"]


@pytest.mark.parametrize(
    ("flags", "pooling"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_max_tokens": True, "pooling_mode_mean_tokens": True}, "max+mean"),
        ({"pooling_mode_mean_tokens": False}, "mean"),
    ],
)
def test_the_older_format_of_poolings_is_read(tmp_path: Path, flags: dict[str, bool], pooling: str) -> None:
    write_tiny_bert(tmp_path)
    (tmp_path / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 32, **flags}))
    model = read_sentence_model(tmp_path)
    assert model.pooling == pooling
    assert model.dimension == 32 * len(pooling.split("+"))


@pytest.mark.parametrize(
    ("model", "dimension"),
    [
        ({"hidden_size": None, "dim": 32}, 32),
        ({"hidden_size": None, "n_embd": 32}, 32),
        ({"hidden_size": None, "pooling": "mean+max"}, 2 * 32),
        ({"modules": ("Dense", "Normalize")}, 8),
    ],
)
def test_the_dimension_is_that_of_the_last_part_that_says_one(
    tmp_path: Path, model: dict[str, Any], dimension: int
) -> None:
    write_tiny_bert(tmp_path, **model)
    assert read_sentence_model(tmp_path).dimension == dimension


def test_a_bare_encoder_takes_the_mean_of_its_tokens(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path, pooling="cls")
    (tmp_path / "modules.json").unlink()
    model = read_sentence_model(tmp_path)
    assert (model.pooling, model.dimension) == ("mean", 32)


def test_the_maximum_length_is_the_tokenizers_but_at_most_the_positions(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path)
    (tmp_path / "sentence_bert_config.json").unlink()
    assert read_sentence_model(tmp_path).max_length == 40
    for stated, length in ((30, 30), (10**30, 40)):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": stated}))
        assert read_sentence_model(tmp_path).max_length == length


def test_roberta_like_models_have_fewer_positions_because_of_padding(tmp_path: Path) -> None:
    for model_type in ("roberta", "xlm-roberta", "camembert", "mpnet"):
        write_tiny_bert(tmp_path, model_type=model_type, pad_token_id=1)
        assert read_sentence_model(tmp_path).positions == 38


def test_prompts_are_read_by_the_names_that_models_use(tmp_path: Path) -> None:
    for passage in ("document", "passage", "corpus"):
        write_tiny_bert(tmp_path, prompts={"query": "query: ", passage: "passage: ", "other": "x"})
        assert read_sentence_model(tmp_path).prompts == ("query: ", "passage: ")


def test_a_missing_or_damaged_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"config\.json"):
        read_sentence_model(tmp_path)
    write_tiny_bert(tmp_path)
    (tmp_path / "modules.json").write_text("[{")
    with pytest.raises(ModelMissing, match=r"modules\.json cannot be read"):
        read_sentence_model(tmp_path)


# Two texts of three and two tokens, two numbers a token; the last token of the second is padding.
TOKENS = np.array([[[1, 4], [2, 0], [6, 2]], [[3, -1], [5, -3], [99, 99]]], np.float32)
MASK = np.array([[1, 1, 1], [1, 1, 0]], np.float32)
ROOT_2, ROOT_3 = math.sqrt(2), math.sqrt(3)
EXPECTED: dict[str, list[list[float]]] = {
    "mean": [[9 / 3, 6 / 3], [8 / 2, -4 / 2]],
    "cls": [[1, 4], [3, -1]],
    "max": [[6, 4], [5, -1]],
    "mean_sqrt_len_tokens": [[9 / ROOT_3, 6 / ROOT_3], [8 / ROOT_2, -4 / ROOT_2]],
    "weightedmean": [[(1 + 4 + 18) / 6, (4 + 0 + 6) / 6], [(3 + 10) / 3, (-1 - 6) / 3]],
    "lasttoken": [[6, 2], [5, -3]],
}


@pytest.mark.parametrize("pooling", POOLINGS)
def test_each_pooling_gives_the_values_computed_by_hand_and_ignores_padding(pooling: str) -> None:
    assert np.allclose(pool(TOKENS, MASK, pooling), EXPECTED[pooling], atol=1e-6)


def test_combined_poolings_are_concatenated_in_their_order() -> None:
    assert pool(TOKENS, MASK, "max+cls").tolist() == [[6, 4, 1, 4], [5, -1, 3, -1]]


BGE = ("Represent this sentence for searching relevant passages: ", "")


@pytest.mark.parametrize(
    ("name", "prompts"),
    [
        ("BAAI/bge-small-en-v1.5", BGE),
        ("Xenova/bge-small-en-v1.5", BGE),
        ("/models/bge-small-en-v1.5/", BGE),
        ("bge-small-en-v1.5", BGE),
        ("/models/e5-small-v2", ("query: ", "passage: ")),
        ("/models/gte-small", (None, None)),
        ("/models/bge-small-en-v1.5/finetuned", (None, None)),
        ("/models/my-bge-small-en-v1.5", (None, None)),
        ("", (None, None)),
    ],
)
def test_the_last_part_of_a_name_decides_the_prompts(
    name: str, prompts: tuple[str | None, str | None]
) -> None:
    assert known_prompts(name) == prompts


@pytest.mark.parametrize(
    ("name", "pooling"),
    [("bge-small-en-v1.5", "cls"), ("e5-small-v2", "mean"), ("a-model-of-ours", "mean")],
)
def test_a_folder_that_does_not_state_its_pooling_has_that_of_its_model(
    tmp_path: Path, name: str, pooling: str
) -> None:
    folder, stated = tmp_path / name, tmp_path / "stated"
    for each in (folder, stated):
        each.mkdir()
        write_tiny_bert(each, pooling="max")
    assert OnnxEmbedder(str(folder), threads=1).model.pooling == "max", "as the folder states"
    write_tiny_bert(stated, pooling=pooling)
    (folder / "modules.json").unlink()
    embedder = OnnxEmbedder(str(folder), threads=1)
    expected = reference_vectors(stated, embedder.pieces.read(TEXTS))
    assert np.abs(embedder.embed_passages(TEXTS) - expected).max() < 1e-5


def test_sentence_transformers_refuses_a_folder_whose_tokens_it_would_pool_in_another_way(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "bge-small-en-v1.5"
    folder.mkdir()
    write_tiny_bert(folder)
    (folder / "modules.json").unlink()
    with pytest.raises(NotConfigured, match=r"has no modules\.json.*the pooling of .* is 'cls'"):
        _ = SentenceTransformersEmbedder(str(folder), threads=1).fingerprint


@given(st.lists(st.integers(1, 300)), st.integers(1, 1_000))
def test_batches_hold_every_text_once_and_no_more_tokens_than_allowed(lengths: list[int], limit: int) -> None:
    batches = batches_by_length(lengths, max_tokens=limit)
    assert sorted(at for batch in batches for at in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[at] for at in batch) <= limit


def test_texts_of_equal_length_share_a_batch_and_padding_is_masked() -> None:
    assert batches_by_length([2, 9, 2, 9], max_tokens=18) == [[1, 3], [0, 2]]
    ids, mask = padded([[7], [5, 6]])
    assert ids.tolist() == [[7, 0], [5, 6]]
    assert mask.tolist() == [[1, 0], [1, 1]]


def test_a_text_is_read_with_its_special_tokens_and_cut_at_the_limit(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path)
    pieces = WordPieces(read_sentence_model(tmp_path), max_pieces=2)
    # [CLS] 2, [SEP] 3, "a" 4, "text" 6, "word" 7.
    assert pieces.read(["a text word"]) == [[2, 4, 6, 3]]
    assert pieces.read(["", "word"]) == [[2, 3], [2, 7, 3]]
    assert pieces.count("a text word") == 3
    assert whole_characters("a\ud800b 漢🙂\0") == "a?b 漢🙂\0"


def test_texts_are_lowercased_if_the_model_says_so(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path)
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps({**tokenizer, "normalizer": None}))
    assert WordPieces(read_sentence_model(tmp_path)).read(["WORD"]) == [[2, 1, 3]]
    (tmp_path / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    assert WordPieces(read_sentence_model(tmp_path)).read(["WORD"]) == [[2, 7, 3]]


def test_a_limit_that_the_model_does_not_have_is_refused(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path)
    for wanted in (0, -1, 39):
        with pytest.raises(WrongDeclaration, match="reads 1 to 38 word pieces"):
            WordPieces(read_sentence_model(tmp_path), max_pieces=wanted)


@pytest.mark.parametrize("content", [None, "", "{}"])
def test_a_missing_or_damaged_tokenizer_is_a_missing_model(tmp_path: Path, content: str | None) -> None:
    write_tiny_bert(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ModelMissing, match=r"tokenizer\.json"):
        WordPieces(read_sentence_model(tmp_path))
