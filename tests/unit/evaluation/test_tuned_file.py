"""A pipeline file with one more configuration."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import yaml

from config.declarations import Configuration
from config.model_declarations import RerankerDeclaration
from config.pipeline_reader import DEFAULT_FILE
from evaluation.tuning.tuned_file import check_name, configuration_block, write_tuned
from models.boost_plan import BoostPlan
from models.errors import WrongDeclaration
from tasks.wiring.pipeline import load_pipeline

PLAIN = Configuration(name="tuned", method="rrf", k=10.0)
EVERYTHING = Configuration(
    name="tuned",
    method="bounded",
    branches=("bm25", "vector"),
    weights={"bm25": 0.7, "vector": 0.3},
    weights_by_type={"identifier": {"bm25": 1.0, "vector": 0.0}},
    rank_window_size=50,
    halves={"bm25": 23.7, "vector": 0.72},
    complete_scores=True,
    boosts=BoostPlan(authority={'la "legge"': 1.2}, recency_amount=0.2, max_places=None),
)


@pytest.mark.parametrize("chosen", [PLAIN, EVERYTHING], ids=["plain", "everything"])
def test_the_file_is_read_as_the_pipeline_with_a_configuration(tmp_path: Path, chosen: Configuration) -> None:
    target = tmp_path / "new" / "tuned.toml"
    write_tuned(chosen, ["why", "it is better"], source=None, target=target)
    read, shipped = load_pipeline(target), load_pipeline()
    assert read.configurations["tuned"] == chosen
    assert (read.branches, read.default_configuration) == (shipped.branches, shipped.default_configuration)
    assert read.configurations.keys() - shipped.configurations.keys() == {"tuned"}
    assert target.read_text().startswith(DEFAULT_FILE.read_text().rstrip("\n"))
    assert "# why\n# it is better\n[configurations.tuned]\n" in target.read_text()


def test_a_name_that_is_taken_is_refused_before_anything_is_searched() -> None:
    with pytest.raises(WrongDeclaration, match="has a configuration 'rrf' already"):
        check_name("rrf", load_pipeline())
    check_name("tuned", load_pipeline())


def test_a_pipeline_of_yaml_gets_the_configuration_in_a_file_of_yaml(tmp_path: Path) -> None:
    source, target = tmp_path / "pipeline.yaml", tmp_path / "tuned.yaml"
    source.write_text(
        "stores:\n  local: {kind: embedded}\nbranches:\n  bm25: {kind: bm25, group: lexical, store: local}\n"
        "configurations:\n  own: {method: rrf}\n"
    )
    chosen = Configuration(name="tuned", method="dbsf", boosts=BoostPlan(authority={"law": 2.0}))
    write_tuned(chosen, ["why"], source=source, target=target)
    assert load_pipeline(target).configurations == {
        "own": Configuration(name="own", method="rrf"),
        "tuned": chosen,
    }
    assert target.read_text().startswith("# why\n")
    with pytest.raises(WrongDeclaration, match=r"ends in \.yaml"):
        write_tuned(chosen, [], source=source, target=tmp_path / "tuned.toml")


@pytest.mark.parametrize("name", ["pipeline.toml", "pipeline.yaml"])
def test_the_block_of_a_configuration_is_in_the_language_of_its_file(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    reranker = RerankerDeclaration(name="cross", model="mini")
    block = configuration_block(PLAIN.model_copy(update={"reranker": reranker}), ["why"], file)
    assert block.startswith("# why\n")
    read = tomllib.loads(block) if file.suffix == ".toml" else yaml.safe_load(block)
    assert read == {"configurations": {"tuned": {"method": "rrf", "k": 10.0, "reranker": "cross"}}}
