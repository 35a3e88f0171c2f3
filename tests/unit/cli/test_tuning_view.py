"""What `chorale tune` says about its result, and which questions of a golden file it takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cli.commands.tune import _of_file
from cli.views.tuning import show_tuning
from config.declarations import Configuration
from evaluation.paired import Gain
from evaluation.tuning import Row, Tuning

NONE = Gain(0.0, 0.0, 0.0, 1.0, 0, 0, 50)
BETTER = Gain(0.021, 0.01, 0.03, 0.001, 20, 5, 50)
UNSURE = Gain(0.004, -0.003, 0.011, 0.3, 9, 7, 50)


def _tuning(over_best: Gain, by_type: Gain | None = None) -> Tuning:
    return Tuning(
        questions=50,
        types={"sentence": 50},
        default="rrf",
        rows=[
            Row("rrf", 0.70, NONE),
            Row("scores", 0.72, BETTER),
            Row("tuned", 0.724, over_best, is_held_out=True),
        ],
        best_existing="scores",
        over_best=over_best,
        by_type=by_type,
        deeper=UNSURE,
        configuration=Configuration(name="tuned", method="dbsf"),
        tried=90,
    )


def test_a_better_configuration_is_named_with_its_file_and_types_that_are_not_better_are_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_tuning(_tuning(BETTER, UNSURE), "docs", Path("/home/me/tuned.toml"))
    said = capsys.readouterr().out
    assert "Better. tuned over the best existing configuration (scores)" in said
    assert "CHORALE_PIPELINE_FILE=/home/me/tuned.toml chorale up" in said
    assert "not distinguishable, and left out" in said


def test_a_loss_against_the_best_in_hindsight_is_not_called_worse(capsys: pytest.CaptureFixture[str]) -> None:
    found = replace(_tuning(Gain(-0.02, -0.03, -0.01, 0.001, 2, 9, 50)), ends_at="scores")
    show_tuning(found, "docs", None)
    said = capsys.readouterr().out
    assert "Not distinguishable. tuned over" in said
    assert "With all questions the search chooses scores itself." in said
    assert found.verdict == "not distinguishable"


def test_questions_that_nothing_answers_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "golden.jsonl"
    file.write_text(
        '{"question": "one?", "expected": "d1", "namespace": "law"}\n'
        '{"question": "nothing?", "expected": []}\n'
        '{"question": "two?", "expected": {"d2": 2}, "filters": {"year": 2024}}\n'
    )
    label, asked, graded = _of_file(file, "docs", None)
    assert label == "golden"
    assert [(one.question_id, one.text, one.namespace, one.filters) for one in asked] == [
        ("line 1", "one?", "law", {}),
        ("line 3", "two?", "docs", {"year": 2024}),
    ]
    assert graded == {"line 1": {"d1": 1}, "line 3": {"d2": 2}}
