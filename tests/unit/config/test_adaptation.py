"""The table `adapt` of a configuration, whose weights follow the grades of a namespace."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.declarations import Adaptation
from models.errors import WrongDeclaration
from tests.support.pipelines.pipeline_files import LOCAL, branch, declared

TABLES = f"""{LOCAL}{branch("bm25")}{branch("vector", "dense")}{branch("hyde", "dense")}
[configurations.best]
method = "rrf"
weights = {{ bm25 = 2, vector = 2, hyde = 1 }}
[configurations.best.adapt]
"""
BOUNDS = "bounds = { bm25 = [0.2, 0.6], vector = [0.3, 0.5] }"


def test_nothing_adapts_unless_it_is_declared_and_then_it_only_proposes(tmp_path: Path) -> None:
    assert declared(tmp_path, LOCAL + branch("bm25")).configurations["rrf"].adapt is None
    pipeline = declared(tmp_path, TABLES + BOUNDS)
    bounds = {"bm25": (0.2, 0.6), "vector": (0.3, 0.5)}
    best = pipeline.configurations["best"]
    assert best.adapt == Adaptation(bounds=bounds, every_h=24, min_new_grades=20, mode="propose")
    proposed = best.model_copy(update={"name": "best-proposed", "adapt": None})
    assert dict(pipeline.configurations) == {"best": best, "best-proposed": proposed}


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ("", "adapt.bounds: Field required"),
        ("bounds = { bm25 = [0.2, 0.6] }", "adapt.bounds: Dictionary should have at least 2 items"),
        (BOUNDS + '\nmode = "decide"', "adapt.mode: Input should be 'propose' or 'take'"),
        (BOUNDS + "\nevery_h = 0", "adapt.every_h: Input should be greater than 0"),
        (BOUNDS + "\nmin_new_grades = 0", "adapt.min_new_grades: Input should be greater than or equal to 1"),
        (BOUNDS.replace("0.6", "1.6"), "Input should be less than or equal to 1"),
        (BOUNDS.replace("bm25", "bm52"), "adapt: bounds: no branch 'bm52'; there are: bm25, vector, hyde"),
        (BOUNDS.replace("0.6", "0.1"), "adapt: bounds: bm25: 0.2 is more than 0.1"),
        (
            BOUNDS.replace("0.5", "0.35"),
            "adapt: bounds: vector has 0.4 of all weight, and its bounds are 0.3 and 0.35; "
            "declare `weights` within them",
        ),
        (
            BOUNDS + '\n[configurations.best-proposed]\nmethod = "rrf"',
            "configurations.best-proposed: the name of what 'best' proposes; choose another",
        ),
    ],
)
def test_each_mistake_names_its_field_and_what_is_allowed(tmp_path: Path, lines: str, complaint: str) -> None:
    with pytest.raises(WrongDeclaration) as caught:
        declared(tmp_path, TABLES + lines)
    assert complaint in str(caught.value)


def test_a_configuration_whose_ranking_recorded_lists_do_not_tell_does_not_adapt(tmp_path: Path) -> None:
    tables = TABLES.replace('"rrf"', '"dbsf"\ncomplete_scores = true') + BOUNDS
    with pytest.raises(WrongDeclaration, match="a configuration with `complete_scores` does not adapt"):
        declared(tmp_path, tables)
