"""A model is missing, half written, or slow to load: the other branches answer, and the model is loaded later."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from chorale_client import Answer
from chorale_client.keys import HEARTBEAT

from tests.support.faults.moments import join_without_one_branch
from tests.support.faults.observers import asking, order_by, seen
from tests.support.faults.serving import nobody_has_ended, serving
from tests.support.models.tiny_bert import write_tiny_bert
from tests.support.pipelines.failpoints import PROCESS
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until

TEXTS = {
    "tree": ("A tree", "words of a tree"),
    "date": ("A date", "a date other than a word"),
    "text": ("A text", "a question of text"),
}
QUESTION = "a tree of words"

TWO_BRANCHES = """
[stores.local]
kind = "embedded"

[branches.bm25]
kind = "bm25"
group = "lexical"
store = "local"

[branches.vector]
kind = "vector"
group = "dense"
store = "local"
"""

PRELOAD = f"""
import os
from pathlib import Path
if os.environ.get({PROCESS!r}) == "chorale.vector":
    import time
    from inference.embedders import OnnxEmbedder
    load = OnnxEmbedder._load
    def load_slowly(embedder):
        while Path(os.environ["CHORALE_HOME"], "slow").exists():
            time.sleep(0.05)
        return load(embedder)
    OnnxEmbedder._load = load_slowly
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    write_tiny_bert(folder)
    file = folder.parent / "pipeline.toml"
    file.write_text(TWO_BRANCHES)
    queues = ["chorale.retrieve", "chorale.bm25", "chorale.vector", "chorale.fusion"]
    environment = {"CHORALE_EMBEDDER": str(folder)}
    with serving(
        queues, pipeline_file=file, environment=environment, preload=PRELOAD, texts=TEXTS
    ) as pipeline:
        yield pipeline


@pytest.fixture
def whole(running: RunningPipeline) -> Iterator[RunningPipeline]:
    """Yields the pipeline; checks afterwards that every worker loads its model by itself and finds the same documents."""
    expected = order_by(running, ["bm25", "vector"], QUESTION)
    yield running
    running.wait_ready()
    assert order_by(running, ["bm25", "vector"], QUESTION) == expected
    nobody_has_ended(running)


def no_folder(folder: Path) -> None:
    folder.rename(folder.with_name("away"))


def half_the_weights(folder: Path) -> None:
    weights = folder / "model.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)


def no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


@contextmanager
def damaged(pipeline: RunningPipeline, damage: Callable[[Path], None]) -> Iterator[None]:
    folder = Path(pipeline.resources.settings.embedder)
    damage(folder)
    try:
        yield
    finally:
        mend(folder)


def mend(folder: Path) -> None:
    """Completes a model folder, as a copy that is finished does."""
    away = folder.with_name("away")
    if away.exists():
        away.rename(folder)
    write_tiny_bert(folder)


def is_ready(pipeline: RunningPipeline, name: str) -> bool:
    return b'"ready": true' in (pipeline.redis.get(HEARTBEAT + name) or b"")


def ask_once_more(pipeline: RunningPipeline, without_the_model: list[Answer]) -> list[Answer]:
    answer = pipeline.client().retrieve(QUESTION, timeout_s=20)
    if any("model_missing" in warning for warning in answer.warnings):
        without_the_model.append(answer)
    return without_the_model


def start_again(pipeline: RunningPipeline, name: str) -> None:
    pipeline.kill(name)
    pipeline.start(name)


@pytest.mark.parametrize("damage", [half_the_weights, no_folder, no_tokenizer])
def test_a_worker_that_starts_without_its_model_says_so_and_loads_the_model_once_it_is_there(
    whole: RunningPipeline, damage: Callable[[Path], None]
) -> None:
    expected = order_by(whole, ["bm25"], QUESTION)
    with damaged(whole, damage):
        start_again(whole, "chorale.vector")
        client = whole.client()

        def lacks_its_model() -> bool:
            answer = client.retrieve(QUESTION, cache="bypass", timeout_s=20)
            return [missing.reason for missing in answer.degraded] == ["model_missing"]

        until(lacks_its_model)
        answer = seen(whole, QUESTION, timeout_s=20)

        assert (answer.status, answer.missing) == ("degraded", [("search.vector", "model_missing")])
        assert answer.documents == expected
        assert not is_ready(whole, "chorale.vector")


def test_a_planner_without_the_model_plans_requests(whole: RunningPipeline) -> None:
    """The model's fingerprint is part of the cache key: without it no answer is cached."""
    expected = order_by(whole, ["bm25", "vector"], QUESTION)
    with damaged(whole, no_folder):
        start_again(whole, "chorale.retrieve")

        # While the planner starts or is slow, a sweeper in a process with the model plans.
        planned_there: list[Answer] = []
        until(lambda: len(ask_once_more(whole, planned_there)) == 2, limit_s=60)

        for answer in planned_there:
            assert (answer.status, answer.cached) == ("complete", False)
            assert [hit.document_id for hit in answer.hits] == expected
        assert not is_ready(whole, "chorale.retrieve")
    whole.wait_ready()
    until(lambda: whole.client().retrieve(QUESTION, timeout_s=20).cached)


def test_a_request_does_not_wait_for_a_model_that_loads_beyond_the_deadline(whole: RunningPipeline) -> None:
    expected = order_by(whole, ["bm25"], QUESTION)
    (whole.home / "slow").touch()
    try:
        start_again(whole, "chorale.vector")
        future = asking(whole, QUESTION, timeout_s=20)
        join_without_one_branch(whole)
        answer = future.result(60)

        assert (answer.status, answer.missing) == ("degraded", [("search.vector", "not_started")])
        assert answer.documents == expected
        assert not is_ready(whole, "chorale.vector")
    finally:
        (whole.home / "slow").unlink()

    whole.wait_ready(["chorale.vector"])
    assert seen(whole, QUESTION, timeout_s=20).status == "complete", "the first request is whole"
