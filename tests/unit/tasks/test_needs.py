"""A worker loads what its branches need before the first request: embedder, words and vectors of an index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from config.settings import Settings
from models.errors import WrongDeclaration
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tasks.worker.warming import _used_encoders
from tests.support.pipelines.outside_packages import importable, write_package
from tests.support.pipelines.pipeline_files import LOCAL, Declares, branch

PIPELINE = LOCAL + branch("near", "dense")
MODULE = """
from models.extensions import BranchKind
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
    assert _used_encoders(resources) == ["small"], "and no default model, which nothing would use"
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
    resources = Resources(settings, declares(PIPELINE), "redis://unused")
    assert resources.needs == {"questions", "vectors"}
    assert resources.threads_for_a_model == 2


def test_an_unknown_need_stops_the_start_and_lists_the_known_ones(site: Path, declares: Declares) -> None:
    write_package(site, "unlike", MODULE.replace("NEEDS", '"vectros"'), branch_kinds="near = unlike:NEAR")
    said = "the package unlike .*no need vectros; there are: questions, passages, text, vectors"
    with pytest.raises(WrongDeclaration, match=said):
        declares(PIPELINE)
