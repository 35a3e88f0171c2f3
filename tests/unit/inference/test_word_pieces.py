from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.onnx.word_pieces import WordPieces, batches_by_length, padded, whole_characters
from inference.sentence_model import read_sentence_model
from models.errors import ModelMissing, WrongDeclaration
from tests.support.models.tiny_bert import write_tiny_bert


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


def test_lone_surrogates_are_replaced_and_everything_else_is_kept() -> None:
    assert whole_characters("a\ud800b 漢🙂\0") == "a?b 漢🙂\0"
