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


RECIPE = Recipe("anything", 3600.0, max_pieces=24, negatives=2, held_out=3, learns_from="", threads=1)
QUESTIONS = [_question(number) for number in range(30)]


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    need("torch", "`make torch` installs it")
    (base := tmp_path / "base").mkdir()
    write_tiny_cross_encoder(base)
    return replace(RECIPE, base=str(base))


def _after(steps: int) -> Callable[[], bool]:
    """True after it was asked as often as a training of so many steps asks."""
    asked = count()
    return lambda: next(asked) > steps


def _never() -> bool:
    return False


def test_the_questions_that_are_held_out_are_always_the_same_and_never_learned_from() -> None:
    learned, checked = held_out(QUESTIONS, 80)
    assert len(checked) == 3
    assert not {question.question_id for question in learned} & {question.question_id for question in checked}
    assert held_out(QUESTIONS[::-1], 80)[0] == learned
    assert len(held_out(QUESTIONS, 1)[1]) == 1
    with pytest.raises(ServiceError, match="too few to train on"):
        held_out([replace(question, grades={}) for question in QUESTIONS], 80)


@pytest.mark.slow  # PyTorch takes seconds to import
def test_the_best_model_is_a_folder_that_the_pipeline_loads_and_no_worse_check_replaces_it(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = RerankerTraining(tmp_path / "out", replace(recipe, seconds=0.001), QUESTIONS)
    progress = training.run(is_stopped=_never)
    # One step and one check take longer than a millisecond.
    assert (progress.steps, progress.pairs, len(progress.checks)) == (1, 12, 1)
    assert progress.best == progress.checks[0]
    assert progress.loss > 0
    model = tmp_path / "out" / "model"
    reranker = load_reranker(str(model), backend="onnx", threads=1, max_pieces=24)
    reranker.warm()
    assert None not in reranker.score([("question 1", "the passage 2")], limit_s=20).logits

    written, best = (model / "model.safetensors").stat().st_mtime_ns, progress.best
    assert best is not None
    worse = replace(best, ndcg=best.ndcg - 0.1)
    monkeypatch.setattr("evaluation.reranker_training.best_blend", lambda questions, logits: worse)
    training.progress.spent_s = 0.0
    assert training.run(is_stopped=_never).best == best
    assert (model / "model.safetensors").stat().st_mtime_ns == written


@pytest.mark.slow  # PyTorch takes seconds to import
def test_a_training_that_was_stopped_goes_on_where_it_was(recipe: Recipe, tmp_path: Path) -> None:
    stopped = RerankerTraining(tmp_path / "out", recipe, QUESTIONS).run(is_stopped=_after(3))
    assert (stopped.checks, not (tmp_path / "out" / "model").exists()) == ([], True)
    assert 0 < stopped.steps <= 3

    again = RerankerTraining(tmp_path / "out", recipe, QUESTIONS)
    assert again.progress == stopped
    assert again.run(is_stopped=_after(3)).steps > stopped.steps


def test_a_folder_with_a_training_of_other_options_is_refused(tmp_path: Path) -> None:
    check_recipe(tmp_path, RECIPE)
    # More threads make no other training.
    check_recipe(tmp_path, replace(RECIPE, threads=2))
    for other in (replace(RECIPE, negatives=1), replace(RECIPE, learns_from="feedbackqa")):
        with pytest.raises(ServiceError, match="holds a training with other options"):
            check_recipe(tmp_path, other)


def test_without_pytorch_one_sentence_says_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ServiceError, match="make torch"):
        RerankerTraining(tmp_path, RECIPE, QUESTIONS)
