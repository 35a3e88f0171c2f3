"""Embedding what a language model or a caller wrote, with an embedder that takes its time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from typing import Any

import pytest
from chorale_client import make_request

from config.settings import Settings
from models.documents import Matrix
from models.hits import Ranking
from tasks.branches.branch_task import BranchTask
from tasks.branches.generation import SEARCH_RESERVE_S
from tasks.branches.hyde import search_hyde
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.models.used_embedder import use_embedder
from tests.support.pipelines import pipeline_files
from tests.support.pipelines.indexed_texts import index_texts
from tests.support.pipelines.pipeline_files import LOCAL
from tests.support.servers.chat_server import ChatServer, after, says
from tests.support.servers.redis_server import RedisServer
from tests.unit.fusion.builders import branch

pytestmark = pytest.mark.slow

EACH_S = 0.05
"""What a document takes to embed."""
OPTIONS = (
    'options = {{ generator = "openai", url = "{url}", model = "m", documents = 2, fallback = "{fallback}" }}'
)


class SlowEmbedder(HashingEmbedder):
    """Takes its time by a clock of its own, which no busy machine moves."""

    now_s = 0.0

    def embed_passages(self, texts: Any, *, progress: Any = None, timeout_s: float = inf) -> Matrix:
        self.now_s += EACH_S * len(texts)
        return super().embed_passages(texts, progress=progress)


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with ChatServer() as started:
        yield started


class Hyde:
    """A process's own resources, and the one branch of its pipeline."""

    def __init__(self, home: Path, redis: RedisServer, server: ChatServer, *, fallback: str) -> None:
        file = home / "pipeline.toml"
        options = OPTIONS.format(url=server.url, fallback=fallback)
        file.write_text(LOCAL + pipeline_files.branch("hyde", "dense", more=options))
        self.resources = Resources(Settings(home=home), load_pipeline(file), redis.url)
        self.embedder = SlowEmbedder()
        use_embedder(self.resources, self.embedder)
        index_texts(self.resources, "default")
        self.embedder.embedded.clear()
        self.embedder.now_s = 0.0

    def search(
        self, questions: list[Any], *, limit_s: float, clock: Callable[[], float] | None = None
    ) -> tuple[list[Ranking], BranchTask, float]:
        """What was found, the part with its notes, and the seconds that it took."""
        request = make_request(questions, cache="bypass")
        clock = clock or (lambda: self.embedder.now_s)
        store, began_s = self.resources.store("local"), clock()
        ends_at_s = began_s + limit_s
        part = BranchTask(
            self.resources, store, branch("hyde"), request, request.questions, ends_at_s, 0, clock=clock
        )
        return search_hyde(part), part, clock() - began_s


@pytest.fixture
def hyde_with(tmp_path: Path, redis_server: RedisServer, server: ChatServer) -> Callable[[str], Hyde]:
    """With this in the place of the model."""
    return lambda fallback: Hyde(tmp_path, redis_server, server, fallback=fallback)


def questions_with_documents(count: int) -> list[dict[str, Any]]:
    """Questions with two documents each."""
    texts = ["bread is baked", "flour and water"]
    return [{"text": f"bread {place}", "hypothetical_documents": texts} for place in range(count)]


@pytest.mark.parametrize(("fallback", "instead"), [("feedback", "feedback"), ("none", "left out")])
def test_documents_that_there_is_no_time_to_embed_hold_nobody_up(
    hyde_with: Callable[[str], Hyde], fallback: str, instead: str
) -> None:
    hyde = hyde_with(fallback)
    # Twenty questions of two documents would take 2 s; here there is time for seven of them.
    rankings, part, took_s = hyde.search(questions_with_documents(20), limit_s=SEARCH_RESERVE_S + 0.75)
    assert took_s < SEARCH_RESERVE_S + 0.75
    embedded = len(hyde.embedder.embedded) // 2
    assert 1 <= embedded <= 7
    assert [(line.where, line.reason) for line in part.degraded] == [("hypothesis", "budget")]
    unembedded = 20 - embedded
    assert (
        part.degraded[0].detail
        == f"hyde: no time to embed the documents of {unembedded} of 20 questions; {instead}"
    )
    have_hits = 20 if fallback == "feedback" else embedded
    assert [len(ranking.hits) > 0 for ranking in rankings] == [True] * have_hits + [False] * (20 - have_hits)


def test_the_model_leaves_the_time_that_embedding_its_documents_takes(
    hyde_with: Callable[[str], Hyde], server: ChatServer
) -> None:
    server.forget()
    hyde = hyde_with("feedback")
    hyde.search(["bread"], limit_s=20)
    each_s = hyde.resources.generators.document_s
    assert each_s >= EACH_S
    server.answer = after(5, says("too late"))

    def model_time_s(questions: int, limit_s: float) -> float:
        """What the model may take, by a clock that stands still."""
        texts = [f"bread {place}" for place in range(questions)]
        _, part, _ = hyde.search(texts, limit_s=limit_s, clock=lambda: 0.0)
        (missing,) = part.degraded
        (seconds,) = re.findall(r"no answer within (.*) s;", missing.detail)
        return float(seconds)

    # Four questions of two documents.
    assert model_time_s(4, SEARCH_RESERVE_S + 1.5) == pytest.approx(1.5 - 8 * each_s, abs=0.01)
    # Where embedding would take longer than that, the model still has half of the time.
    assert model_time_s(40, SEARCH_RESERVE_S + 1.2) == pytest.approx(0.6, abs=0.01)


def test_longer_documents_than_the_last_ones_are_seen_at_once(
    hyde_with: Callable[[str], Hyde],
) -> None:
    hyde = hyde_with("feedback")
    hyde.resources.generators.document_s = EACH_S / 10
    # .1 s for the first question, after which there is time for none; by the mean of before there would be.
    hyde.search(questions_with_documents(3), limit_s=SEARCH_RESERVE_S + 0.1 + 0.08)
    assert len(hyde.embedder.embedded) == 2


def test_after_a_machine_that_stood_still_documents_are_embedded_again(
    hyde_with: Callable[[str], Hyde],
) -> None:
    hyde = hyde_with("none")
    hyde.resources.generators.document_s = 50.0
    for _ in range(12):
        rankings, part, _ = hyde.search(questions_with_documents(2), limit_s=SEARCH_RESERVE_S + 1)
        # The first question's, whatever it was thought to take.
        assert rankings[0].hits
    assert part.degraded == []
