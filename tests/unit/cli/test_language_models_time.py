"""`chorale doctor` and `chorale up` find configurations that leave a model too little time, or should not rank a language."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cli.doctor.servers import language_models_time
from cli.installation import Installation
from cli.namespace_states import unknown_languages
from config.settings import Settings
from models.documents import Manifest, NamespaceState
from tasks.wiring.pipeline import load_pipeline

WITH_A_MODEL = """
[stores.local]
kind = "embedded"

[branches.bm25]
kind = "bm25"
group = "lexical"
store = "local"

[branches.hyde]
kind = "hyde"
group = "dense"
store = "local"
options = {{ generator = "openai", url = "http://127.0.0.1:9/v1", model = "m", limit_s = {limit_s} }}

[configurations.best]
method = "rrf"
{configuration}
"""


def findings_of(tmp_path: Path, *, limit_s: float, configuration: str) -> list[str]:
    file = tmp_path / "pipeline.toml"
    file.write_text(WITH_A_MODEL.format(limit_s=limit_s, configuration=configuration))
    nowhere = "redis://127.0.0.1:9/0"
    installation = Installation(Settings(home=tmp_path, redis_url=nowhere, pipeline_file=file), nowhere)
    return [f"{finding.what}; {finding.mend}" for finding in language_models_time(installation)]


def test_a_configuration_whose_default_time_is_too_short_for_its_model_is_found(tmp_path: Path) -> None:
    # 2 s, of which .06 s are for the end, .1 s for fusion and .3 s for what follows the model.
    assert findings_of(tmp_path, limit_s=5, configuration="") == [
        "configuration 'best' has no timeout_s: of the 2 s of a request that gives none the language model of hyde "
        "has at most 1.5 s, not its limit_s of 5 s; declare timeout_s in [configurations.best], above that limit_s"
    ]


@pytest.mark.parametrize(
    ("limit_s", "configuration"), [(5, "timeout_s = 8.0"), (1.5, ""), (5, 'branches = ["bm25"]')]
)
def test_a_configuration_with_enough_time_or_without_a_model_gives_no_finding(
    tmp_path: Path, limit_s: float, configuration: str
) -> None:
    assert findings_of(tmp_path, limit_s=limit_s, configuration=configuration) == []


PIPELINE = load_pipeline()


def namespace(name: str, known_words: float | None) -> NamespaceState:
    return NamespaceState(name, 1, 1, 1, Manifest("", "it", "", "", 4, known_words=known_words))


STATES = [namespace("english", 0.89), namespace("italian", 0.14), namespace("unmeasured", None)]


def test_a_namespace_in_a_language_that_its_encoder_hardly_knows_is_named() -> None:
    assert list(unknown_languages(PIPELINE, STATES)) == [
        "namespace 'italian': its encoder knows 14% of the words, so vectors say little"
    ]
    empty = replace(STATES[1], manifest=None)
    assert not list(unknown_languages(PIPELINE, [empty]))


def test_no_language_is_named_where_no_branch_has_an_encoder() -> None:
    words = tuple(branch for branch in PIPELINE.branches if branch.kind == "bm25")
    assert not list(unknown_languages(replace(PIPELINE, branches=words), STATES))
