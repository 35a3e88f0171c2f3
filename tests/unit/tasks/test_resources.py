from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assembly.pipeline import load_pipeline
from assembly.resources import Resources
from config.settings import Settings
from models.errors import WrongDeclaration
from tests.support.models.tiny_bert import TEXTS, write_tiny_bert


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    write_tiny_bert(folder)
    return folder


def resources_of(model: Path, **settings: Any) -> Resources:
    return Resources(
        Settings(home=model.parent, embedder=str(model), **settings), load_pipeline(None), "redis://nowhere"
    )


def test_with_one_precision_for_both_sides_answers_depend_on_one_model(model: Path) -> None:
    exact = resources_of(model)
    fast = resources_of(model, embedder_document_precision="int8", embedder_question_precision="int8")
    assert exact.fingerprints.keys() == fast.fingerprints.keys() == {"embedder", "feedback"}
    assert exact.fingerprints["embedder"] != fast.fingerprints["embedder"]


def test_a_different_precision_of_questions_is_recorded(model: Path) -> None:
    exact = resources_of(model)
    mixed = resources_of(model, embedder_question_precision="int8")
    fast = resources_of(model, embedder_document_precision="int8", embedder_question_precision="int8")
    assert mixed.fingerprints == {
        "embedder": exact.fingerprints["embedder"],
        "questions": fast.fingerprints["embedder"],
        "feedback": "0.6 3 local",
    }


HYDE = """
[stores.local]
kind = "embedded"

[stores.texts]
kind = "embedded"
options = { folder = "texts" }

[branches.hyde]
kind = "KIND"
group = "dense"
store = "local"
OPTIONS

[configurations.one]
method = "rrf"
"""


def test_answers_depend_on_the_feedback_settings(model: Path, tmp_path: Path) -> None:
    def feedback(kind: str = "hyde", options: str = "", **settings: Any) -> str | None:
        file = tmp_path / "pipeline.toml"
        file.write_text(HYDE.replace("KIND", kind).replace("OPTIONS", options))
        home = Settings(home=tmp_path, embedder=str(model), **settings)
        return Resources(home, load_pipeline(file), "redis://nowhere").fingerprints.get("feedback")

    assert feedback() == "0.6 3 local"
    assert feedback(feedback_alpha=1.0) == "1.0 3 local"
    assert feedback(feedback_passages=1) == "0.6 1 local"
    assert feedback(options='options = { feedback_store = "texts" }') == "0.6 3 texts"
    assert feedback("vector") is None


def test_cached_vectors_have_the_precision_of_questions(model: Path) -> None:
    mixed = resources_of(model, embedder_question_precision="int8")
    asked = mixed.embedder.questions.embed_questions(TEXTS)
    assert np.array_equal(mixed.questions.embed_questions(TEXTS), asked)
    assert np.array_equal(mixed.questions.embed_questions(TEXTS), asked), "from the cache"
    assert not np.array_equal(asked, mixed.embedder.embed_passages(TEXTS))


def test_an_unsupported_precision_is_refused_and_the_supported_ones_are_listed(model: Path) -> None:
    resources = resources_of(
        model, embedder_backend="sentence_transformers", embedder_question_precision="int8"
    )
    with pytest.raises(WrongDeclaration, match=r"'int8'.*there are: fp32"):
        _ = resources.embedder
