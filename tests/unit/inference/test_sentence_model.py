from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inference.sentence_model import read_sentence_model
from inference.vectors import POOLINGS, pool
from models.errors import ModelMissing
from tests.support.models.tiny_bert import write_tiny_bert


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
