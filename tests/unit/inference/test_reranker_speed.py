"""How many pairs fit the time: chosen from measured runs, and cut when the estimate was wrong."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inference.concurrency import JobThread
from inference.pair_reranker import PairReranker, PairSpeed
from tests.support.models.tiny_cross_encoder import write_tiny_cross_encoder

FIFTY = [("a question", f"text word tree {'date ' * (place % 5)}") for place in range(50)]
LIMIT_S = 4.0


class Timed(PairReranker):
    """A cross-encoder with a simulated clock, so that no test waits."""

    def __init__(self, folder: Path) -> None:
        self.now_s = 0.0
        self.pair_s = 0.04
        self.runs: list[int] = []
        super().__init__(str(folder), threads=1, max_pieces=32, clock=lambda: self.now_s)

    def _load(self) -> Any:
        def run(ids: Any, segments: Any, mask: Any) -> Any:
            self.now_s += len(ids) * self.pair_s
            self.runs.append(len(ids))
            return np.arange(len(ids), dtype=np.float32)

        return run


@pytest.fixture
def timed(tmp_path: Path) -> Timed:
    reranker = Timed(write_tiny_cross_encoder(tmp_path))
    reranker.warm()
    reranker.runs.clear()
    return reranker


def counts(reranker: Timed) -> tuple[int, int]:
    """How many pairs were chosen, and how many of these have a score."""
    scores = reranker.score(FIFTY, limit_s=LIMIT_S)
    return scores.chosen, sum(logit is not None for logit in scores.logits)


def test_a_model_slowed_ten_times_scores_a_few_pairs_and_all_fifty_when_it_recovers(timed: Timed) -> None:
    assert counts(timed) == (50, 50)
    timed.pair_s = 0.4
    for _ in range(12):
        chosen, scored = counts(timed)
    # Four fifths of 4 s, at .4 s a pair; pairs shorter than the longest of their run are expected to be slightly faster.
    assert 6 <= chosen <= 10
    assert scored == chosen
    timed.pair_s = 0.04
    recovering = [counts(timed)[0] for _ in range(20)]
    assert recovering == sorted(recovering)
    assert recovering[-1] == 50


def test_a_run_that_would_not_end_in_time_is_not_started(timed: Timed) -> None:
    timed.pair_s = 0.4
    begun_s = timed.now_s
    chosen, scored = counts(timed)
    assert chosen == 50
    assert timed.runs == [scored] == [16]
    # After the slow run, no other run was started.
    assert timed.now_s - begun_s == pytest.approx(0.4 * scored)


def test_one_pair_is_tried_even_if_the_model_was_slow(timed: Timed) -> None:
    timed.pair_s = 400.0
    assert [counts(timed)[0] for _ in range(3)][1:] == [1, 1]
    timed.pair_s = 0.04
    assert [counts(timed)[0] for _ in range(40)][-1] == 50


def test_texts_of_more_pairs_than_can_fit_are_not_fetched(timed: Timed) -> None:
    # Warming measured .04 s for 32 pieces, and a short pair has 16.
    assert timed.most(LIMIT_S) == pytest.approx(LIMIT_S / 0.02, abs=1)
    assert timed.most(0.001) == 1


def test_the_mean_follows_the_latest_runs() -> None:
    speed = PairSpeed()
    # Without measurements all pairs fit.
    assert speed.affordable([100, 200], limit_s=0.001) == 2
    speed.learn(length=16, pairs=10, took_s=0.16)  # .001 s a piece
    speed.learn(length=100, pairs=2, took_s=0.4)  # .002
    # .7 x .001 + .3 x .002
    assert speed.expected_s(100) == pytest.approx(0.13)
    # .8 x 1 s: six of .13 s fit, the seventh does not
    assert speed.affordable([100] * 7, limit_s=1) == 6


def test_a_caller_waits_for_a_hung_job_only_until_its_limit() -> None:
    thread, released = JobThread("test"), threading.Event()

    def hangs() -> None:
        released.wait(60)

    assert thread.run(lambda: None, limit_s=20) is True
    assert thread.run(hangs, limit_s=0.05) is True
    assert thread.run(lambda: None, limit_s=0.05) is False
    released.set()
    assert thread.run(lambda: None, limit_s=20) is True


def test_the_job_s_exception_reaches_the_caller_and_the_thread_continues() -> None:
    thread = JobThread("test")

    def fails() -> None:
        raise MemoryError("too much")

    for _ in range(2):
        with pytest.raises(MemoryError, match="too much"):
            thread.run(fails, limit_s=20)
    assert thread.run(lambda: None, limit_s=20) is True
