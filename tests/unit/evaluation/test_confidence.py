"""Fitting what tells the confidence, and checking it, on answers that are made up."""

from __future__ import annotations

from math import inf
from pathlib import Path
from random import Random

import numpy as np
import pytest

from evaluation.collection import Collection
from evaluation.confidence import (
    Judged,
    calibration_error,
    check,
    fit,
    fit_product,
    foreign,
    judged,
    product,
    reliability_table,
    spaced,
)
from models.errors import ServiceError
from tests.unit.evaluation.answers import Service, question


def test_the_factors_that_made_the_data_are_found() -> None:
    """The shares of many answers that came true take the place of the answers themselves."""
    random = np.random.default_rng(1)
    signals, log_top = random.random((400, 1)) * 2, random.random(400) * 4
    about, found = np.array([-3.0, 4.0]), np.array([-1.0, 0.0, 0.8])
    came_true = product(about, found, signals, log_top)
    fitted = fit_product(signals, log_top, came_true, np.ones(len(signals)))
    assert fitted[0] == pytest.approx(about, abs=0.2)
    assert fitted[1] == pytest.approx(found, abs=0.2)


def test_a_signal_that_points_the_wrong_way_gets_no_factor() -> None:
    random = np.random.default_rng(2)
    signals = random.random((2_000, 1))
    came_true = (signals[:, 0] < 0.5).astype(np.float64)
    about, found = fit_product(signals, np.zeros(len(signals)), came_true, np.ones(len(signals)))
    assert (about[1], found[1]) == (0, 0)


def test_the_calibration_error_by_hand() -> None:
    promised, came_true = np.array([0.05, 0.15, 0.15, 1.0]), np.array([0.0, 1.0, 0.0, 1.0])
    table = reliability_table(promised, came_true, np.array([1.0, 1.0, 1.0, 1.0]))
    rows = [(row.low, row.share, row.kept) for row in table]
    assert rows == [(0, 0.25, 0), (0.1, 0.5, 0.5), (0.9, 0.25, 1)]
    assert calibration_error(table) == pytest.approx(0.25 * 0.05 + 0.5 * 0.35)


def answers(random: Random, count: int) -> list[Judged]:
    """Half are about the corpus, with higher cosines."""
    answers = []
    for place in range(count):
        is_own = place < count / 2
        cosine = random.gauss(0.7 if is_own else 0.3, 0.08)
        rank = random.choice((1, 1, 2, 7, inf)) if is_own else inf
        answers.append(Judged({"cosine": cosine, "agreement": random.random() * is_own}, rank, 0.5, is_own))
    return answers


def test_a_model_for_each_set_of_signals_keeps_its_promises_on_other_answers() -> None:
    random = Random(3)
    models = list(fit(answers(random, 800), {"embedder": "e"}))
    assert [model.signals for model in models] == [("cosine", "agreement"), ("cosine",)]
    for model in models:
        assert model.fingerprints == ("e",)
        assert max(model.about["cosine"], model.found["cosine"]) > 5
        checked = check("other", answers(random, 800), model)
        assert checked.error < 0.05
        own, strange = checked.abstained
        assert own < 0.3
        assert strange > 0.95


def test_a_set_whose_signal_some_answer_lacks_is_not_fitted() -> None:
    some = [*answers(Random(1), 60), Judged({"cosine": 0.5}, 1, 0.5, True)]
    assert [model.signals for model in fit(some, {"embedder": "e", "reranker": "r"})] == [("cosine",)]
    assert list(fit(some, {"reranker": "r"})) == []


def collection(name: str, count: int) -> Collection:
    questions = {f"{name}{place}": f"{name} question {place}" for place in range(count)}
    return Collection(name, Path(name), questions, {id_: {f"doc of {id_}": 1} for id_ in questions})


def test_a_collection_is_asked_its_own_questions_and_those_of_the_others() -> None:
    own, *others = collection("a", 3), collection("b", 2), collection("c", 2)
    of_others = ["b question 0", "c question 0", "b question 1"]
    assert foreign(own, [own, *others], 3) == of_others
    # Each answer holds the document of one of its three own questions.
    ask = Service(*(question("x", f"doc of a{n}", signals={"cosine": 0.5}) for n in range(3)))
    judgements = judged(own, [own, *others], ask)
    assert {request.namespace for request in ask.requests} == {"eval-a"}
    texts = [asked.text for request in ask.requests for asked in request.questions]
    assert texts == [*own.questions.values(), *of_others]
    assert [judgement.rank for judgement in judgements] == [2, 2, 2, inf, inf, inf]
    assert sum(judgement.weight for judgement in judgements) == pytest.approx(1)


def test_questions_are_chosen_evenly() -> None:
    whole = collection("a", 10)
    some = spaced(whole, 4)
    assert list(some.questions) == list(some.judgements) == ["a0", "a2", "a5", "a7"]
    assert spaced(whole, 10) is spaced(whole, None) is whole


def test_an_answer_in_part_is_no_judgement() -> None:
    ask = Service(question(status="degraded"), missing=[("search.vector", "timeout")])
    with pytest.raises(ServiceError, match=r"was answered in part: search\.vector timeout"):
        judged(collection("a", 1), [collection("b", 1)], ask)
