"""Prompts and dimensions that a declaration sets for a local model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inference.embedders import OnnxEmbedder
from models.errors import WrongDeclaration
from tests.support.models.tiny_bert import TEXTS, WIDTH, write_tiny_bert

FIXED = "4a8af48adf31d88bd76200e796386d52"
FIXED_WITH_PROMPTS = "9ce235790cff7753f3f7666d2aa3a041"
"""Fingerprints that indexes were built with: they must never change."""
PROMPTS = {"query": "query: ", "passage": "passage: "}


def opened(folder: Path, **settings: Any) -> OnnxEmbedder:
    return OnnxEmbedder(str(folder), threads=1, **settings)


def test_fingerprints_of_existing_indexes_stay(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path)
    assert opened(tmp_path).fingerprint == FIXED
    same = {"question_prompt": "", "passage_prompt": "", "dimensions": WIDTH}
    assert opened(tmp_path, **same).fingerprint == FIXED
    declared = opened(tmp_path, question_prompt="query: ", passage_prompt="passage: ")
    assert declared.fingerprint == FIXED_WITH_PROMPTS
    write_tiny_bert(tmp_path, prompts=PROMPTS)
    assert opened(tmp_path).fingerprint == FIXED_WITH_PROMPTS


@pytest.mark.parametrize("settings", [{"question_prompt": "a "}, {"passage_prompt": "a "}, {"dimensions": 8}])
def test_a_declaration_that_changes_vectors_changes_the_fingerprint(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    write_tiny_bert(tmp_path)
    assert opened(tmp_path, **settings).fingerprint != FIXED


def test_declared_prompts_replace_those_of_the_folder(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path, prompts=PROMPTS)
    declared = opened(tmp_path, question_prompt="a question ", passage_prompt="")
    declared.warm()
    write_tiny_bert(tmp_path)
    without = opened(tmp_path)
    assert np.abs(declared.embed_passages(TEXTS[:4]) - without.embed_passages(TEXTS[:4])).max() < 1e-6
    prompted = without.embed_passages([f"a question {text}" for text in TEXTS[:4]])
    assert np.abs(declared.embed_questions(TEXTS[:4]) - prompted).max() < 1e-6
    assert declared.max_pieces == without.max_pieces - 2


def test_vectors_are_cut_to_the_declared_dimensions_and_of_unit_length(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path)
    cut, whole = opened(tmp_path, dimensions=8), opened(tmp_path).embed_passages(TEXTS)
    expected = whole[:, :8] / np.linalg.norm(whole[:, :8], axis=1, keepdims=True)
    vectors = cut.embed_passages(TEXTS)
    assert cut.dimension == 8
    assert np.abs(vectors - expected).max() < 1e-6
    assert vectors.flags.c_contiguous
    assert cut.embed_questions([]).shape == (0, 8)


@pytest.mark.parametrize("dimensions", [0, WIDTH + 1])
def test_dimensions_that_the_model_does_not_have_are_refused(tmp_path: Path, dimensions: int) -> None:
    write_tiny_bert(tmp_path)
    with pytest.raises(WrongDeclaration, match=f"dimensions: {dimensions}; .* vectors of {WIDTH} numbers"):
        opened(tmp_path, dimensions=dimensions).warm()
