"""What a process works with, and what it needs: models, words and vectors, as settings, pipeline and packages say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from config.settings import Settings
from fusion.confidence import FittedFile
from inference.embedders import OnnxEmbedder
from inference.model_files import ModelTrust
from models.errors import ModelMissing, WrongDeclaration
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tasks.worker.warming import _used_encoders
from tests.support.models.tiny_bert import TEXTS, write_tiny_bert
from tests.support.pipelines.outside_packages import importable, write_package
from tests.support.pipelines.pipeline_files import LOCAL, Declares, branch


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


def test_answers_depend_on_one_model_and_on_a_different_precision_of_questions(model: Path) -> None:
    exact = resources_of(model).fingerprints
    mixed = resources_of(model, embedder_question_precision="int8").fingerprints
    int8 = {"embedder_document_precision": "int8", "embedder_question_precision": "int8"}
    fast = resources_of(model, **int8).fingerprints
    assert exact.keys() == fast.keys() == {"embedder", "feedback"}
    assert exact["embedder"] != fast["embedder"]
    assert mixed == exact | {"questions": fast["embedder"], "feedback": "0.6 3 local"}


PIPELINE = """
[stores.local]
kind = "embedded"

[stores.texts]
kind = "embedded"
options = { folder = "texts" }

[branches.hyde]
kind = "hyde"
group = "dense"
store = "local"
OPTIONS

[rerankers.small]
model = "acme/reranker"
revision = "v2"

[configurations.one]
method = "rrf"
reranker = "small"
"""


def test_answers_depend_on_the_feedback_settings(model: Path, tmp_path: Path, declares: Declares) -> None:
    def feedback(kind: str = "hyde", options: str = "", **settings: Any) -> str | None:
        pipeline = declares(PIPELINE.replace('"hyde"', f'"{kind}"').replace("OPTIONS", options))
        home = Settings(home=tmp_path, embedder=str(model), **settings)
        return Resources(home, pipeline, "redis://nowhere").fingerprints.get("feedback")

    assert feedback() == "0.6 3 local"
    assert feedback(feedback_alpha=1.0) == "1.0 3 local"
    assert feedback(feedback_passages=1) == "0.6 1 local"
    assert feedback(options='options = { feedback_store = "texts" }') == "0.6 3 texts"
    assert feedback("vector") is None


def test_cached_vectors_have_the_precision_of_questions(model: Path) -> None:
    mixed = resources_of(model, embedder_question_precision="int8")
    expected = mixed.encoder.embedder.questions.embed_questions(TEXTS)
    for _ in ("embedded", "from the cache"):
        assert np.array_equal(mixed.encoder.questions.embed_questions(TEXTS), expected)
    assert not np.array_equal(expected, mixed.encoder.embedder.embed_passages(TEXTS))


def test_models_are_trusted_as_the_settings_and_the_pipeline_say(tmp_path: Path, declares: Declares) -> None:
    settings = Settings(home=tmp_path, embedder="acme/tiny", embedder_revision="c" * 40, pickled_weights=True)
    resources = Resources(settings, declares(PIPELINE.replace("OPTIONS", "")), "redis://nowhere")
    models = [resources.encoder.embedder.questions, resources.encoder.indexing, resources.reranker("small")]
    assert [cast("OnnxEmbedder", one).trust for one in models] == [
        ModelTrust(revision, tmp_path / "model_hashes", pickled=True)
        for revision in ("c" * 40, "c" * 40, "v2")
    ]
    assert not Settings(home=tmp_path).pickled_weights


def test_a_tokenizer_of_its_own_counts_the_tokens_of_contexts(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"

    def resources() -> Resources:
        return resources_of(model, context_tokenizer=file)

    with pytest.raises(ModelMissing, match=r"tokenizer\.json cannot be read"):
        resources().count_tokens("one")
    missing = resources().fingerprints["tokenizer"]
    words = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    words.save(str(file))
    assert resources().count_tokens("one two three") == 3
    # Answers with contexts that another tokenizer counted are not taken from the cache.
    assert resources().fingerprints["tokenizer"] != missing
    plain = resources_of(model)
    assert "tokenizer" not in plain.fingerprints
    assert plain.count_tokens("a tree") == plain.encoder.embedder.count_pieces("a tree")


def test_factors_of_its_own_stand_before_the_shipped_ones_and_a_wrong_file_is_refused_at_the_start(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "confidence.json"
    shipped = resources_of(model).fitted
    own = shipped[0].model_copy(update={"fingerprints": ("own",)})
    file.write_text(FittedFile(how="by hand", figures=(), models=(own,)).model_dump_json())
    with_own = resources_of(model, confidence_file=file)
    assert with_own.fitted == (own, *shipped)
    # Answers with the confidence of other factors are not taken from the cache.
    assert with_own.fingerprints["confidence"] != resources_of(model).fingerprints.get("confidence")

    file.write_text(file.read_text().replace('"about":{', '"about":{"colour":1,'))
    monkeypatch.setenv("CHORALE_CONFIDENCE_FILE", str(file))
    monkeypatch.setenv("CHORALE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CHORALE_REDIS_URL", "redis://nowhere")
    with pytest.raises(WrongDeclaration, match=r"CHORALE_CONFIDENCE_FILE.*no signals: colour"):
        Resources.from_environment()


NEAR = LOCAL + branch("near", "dense")
MODULE = """
from models.declarations.extensions import BranchKind
NEAR = BranchKind(lambda part: [], needs=frozenset({NEEDS}))
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "site").mkdir()
    with importable(tmp_path / "site"):
        yield tmp_path / "site"


def test_a_process_needs_what_the_kinds_of_its_branches_need() -> None:
    resources = Resources(Settings(), load_pipeline(), "redis://unused")
    assert resources.needs == {"questions", "passages", "text", "vectors"}
    resources.answered_kinds = {"bm25", "http"}
    assert resources.needs == {"text"}


def test_a_source_by_vector_needs_the_encoder_of_its_branch(declares: Declares) -> None:
    text = '[stores.theirs]\nkind = "http"\noptions = { url = "http://a", id = "id", params = { q = "PLACE" } }\n'
    text += '[encoders.small]\nmodel = "any"\n' + LOCAL + branch("bm25")
    by_vector = text.replace("PLACE", "{vector}") + branch("http", store="theirs", more='encoder = "small"')
    resources = Resources(Settings(), declares(by_vector), "redis://unused")
    assert resources.needs == {"text", "questions"}
    assert _used_encoders(resources, ()) == ["small"], "and no default model, which nothing would use"
    by_text = text.replace("PLACE", "{question}")
    resources = Resources(Settings(), declares(by_text + branch("http", store="theirs")), "redis://unused")
    assert resources.needs == {"text"}
    with pytest.raises(WrongDeclaration, match=r"embeds nothing for a store without \{vector\}"):
        declares(by_text + branch("http", store="theirs", more='encoder = "small"'))


def test_the_needs_of_a_packages_kind_count_for_loading_and_for_threads(
    site: Path, declares: Declares
) -> None:
    write_package(
        site, "nearby", MODULE.replace("NEEDS", '"questions", "vectors"'), branch_kinds="near = nearby:NEAR"
    )
    settings = Settings(model_threads=4, worker_processes={"chorale.near": 2})
    resources = Resources(settings, declares(NEAR), "redis://unused")
    assert resources.needs == {"questions", "vectors"}
    assert resources.threads_for_a_model == 2


def test_an_unknown_need_stops_the_start_and_lists_the_known_ones(site: Path, declares: Declares) -> None:
    write_package(site, "unlike", MODULE.replace("NEEDS", '"vectros"'), branch_kinds="near = unlike:NEAR")
    said = "the package unlike .*no need vectros; there are: questions, passages, text, vectors"
    with pytest.raises(WrongDeclaration, match=said):
        declares(NEAR)
