"""The training of a reranker: its model loads in the pipeline, and a training that was stopped goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from evaluation.judged_candidates import Candidate, JudgedQuestion
from evaluation.reranker_training import Recipe, RerankerTraining, check_recipe, held_out
from inference.backends import load_reranker
from models.errors import ServiceError
from tests.support.models.tiny_cross_encoder import write_tiny_cross_encoder
from tests.support.servers.services import need

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
)


def _question(number: int) -> JudgedQuestion:
    candidates = [Candidate(f"d{place}", 1 / (1 + place), f"the passage {place}") for place in range(6)]
    return JudgedQuestion(f"q{number}", f"question {number}", candidates, {f"d{number % 6}": 1})


QUESTIONS = [_question(number) for number in range(30)]


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    need("torch", "`make torch` installs it")
    (base := tmp_path / "base").mkdir()
    write_tiny_cross_encoder(base)
    return Recipe(str(base), 3600.0, max_pieces=24, negatives=2, held_out=3, learns_from="", threads=1)


def _after(steps: int) -> Callable[[], bool]:
    """True after it was asked as often as a training of so many steps asks."""
    asked = count()
    return lambda: next(asked) > steps


def _never() -> bool:
    return False


def test_the_questions_that_are_held_out_are_always_the_same_and_never_learned_from() -> None:
    learned, checked = held_out(QUESTIONS, 80)
    assert ({one.question_id for one in learned} & {one.question_id for one in checked}, len(checked)) == (
        set(),
        3,
    )
    again, _ = held_out(QUESTIONS[::-1], 80)
    assert again == learned
    assert len(held_out(QUESTIONS, 1)[1]) == 1
    with pytest.raises(ServiceError, match="too few to train on"):
        held_out([replace(one, grades={}) for one in QUESTIONS], 80)


@pytest.mark.slow  # PyTorch takes seconds to import
def test_the_best_model_is_a_folder_that_the_pipeline_loads(recipe: Recipe, tmp_path: Path) -> None:
    training = RerankerTraining(tmp_path / "out", replace(recipe, seconds=0.001), QUESTIONS)
    found = training.run(is_stopped=_never)

    # One step and one check take longer than a millisecond.
    assert (found.steps, found.pairs, len(found.checks)) == (1, 12, 1)
    assert found.best == found.checks[0]
    assert found.loss > 0
    reranker = load_reranker(str(tmp_path / "out" / "model"), backend="onnx", threads=1, max_pieces=24)
    reranker.warm()
    assert None not in reranker.score([("question 1", "the passage 2")], limit_s=20).logits


@pytest.mark.slow  # PyTorch takes seconds to import
def test_a_training_that_was_stopped_goes_on_where_it_was(recipe: Recipe, tmp_path: Path) -> None:
    stopped = RerankerTraining(tmp_path / "out", recipe, QUESTIONS).run(is_stopped=_after(3))
    assert (stopped.checks, not (tmp_path / "out" / "model").exists()) == ([], True)
    assert 0 < stopped.steps <= 3

    again = RerankerTraining(tmp_path / "out", recipe, QUESTIONS)
    assert again.progress == stopped
    assert again.run(is_stopped=_after(3)).steps > stopped.steps


def test_a_folder_with_a_training_of_other_options_is_refused(tmp_path: Path) -> None:
    recipe = Recipe("base", 60.0, max_pieces=24, negatives=2, held_out=3, learns_from="scifact", threads=1)
    check_recipe(tmp_path, recipe)
    # More threads make no other training.
    check_recipe(tmp_path, replace(recipe, threads=2))
    for other in (replace(recipe, negatives=1), replace(recipe, learns_from="feedbackqa")):
        with pytest.raises(ServiceError, match="holds a training with other options"):
            check_recipe(tmp_path, other)


@pytest.mark.slow  # PyTorch takes seconds to import
def test_a_worse_check_does_not_replace_the_best_model(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = RerankerTraining(tmp_path / "out", replace(recipe, seconds=0.001), QUESTIONS)
    training.run(is_stopped=_never)
    written = (tmp_path / "out" / "model" / "model.safetensors").stat().st_mtime_ns
    best = training.progress.best
    assert best is not None
    worse = replace(best, ndcg=best.ndcg - 0.1)
    monkeypatch.setattr("evaluation.reranker_training.best_blend", lambda questions, logits: worse)
    training.progress.spent_s = 0.0
    assert training.run(is_stopped=_never).best == best
    assert (tmp_path / "out" / "model" / "model.safetensors").stat().st_mtime_ns == written


def test_without_pytorch_one_sentence_says_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    recipe = Recipe("anything", 1.0, max_pieces=24, negatives=2, held_out=3, learns_from="", threads=1)
    with pytest.raises(ServiceError, match="make torch"):
        RerankerTraining(tmp_path, recipe, QUESTIONS)
