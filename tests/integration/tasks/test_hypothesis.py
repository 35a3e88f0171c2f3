"""Embedding what a language model or a caller wrote, with an embedder that takes its time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chorale_client import make_request

from assembly.pipeline import load_pipeline
from assembly.resources import Resources
from branches.kinds.hyde import search_hyde
from branches.language_model import AFTER_S
from branches.part import Part
from config.settings import Settings
from models.documents import Document, Matrix, Passage
from models.hits import Ranking
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.pipelines.pipeline import CORPUS, manifest_of
from tests.support.servers.chat_server import ChatServer, after, says
from tests.support.servers.redis_server import RedisServer
from tests.unit.fusion.builders import branch

pytestmark = pytest.mark.slow

EACH_S = 0.05
"""What a document takes to embed."""
PIPELINE = """
[stores.local]
kind = "embedded"

[branches.hyde]
kind = "hyde"
group = "dense"
store = "local"
options = {{ generator = "openai", url = "{url}", model = "m", documents = 2, fallback = "{fallback}" }}

[configurations.one]
method = "rrf"
"""


class SlowEmbedder(HashingEmbedder):
    @property
    def questions(self) -> SlowEmbedder:
        return self

    def embed_passages(self, texts: Any, *, progress: Any = None) -> Matrix:
        time.sleep(EACH_S * len(texts))
        return super().embed_passages(texts, progress=progress)


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with ChatServer() as started:
        yield started


class Hyde:
    """A process's own resources, and the one branch of its pipeline."""

    def __init__(self, home: Path, redis: RedisServer, server: ChatServer, *, fallback: str) -> None:
        file = home / "pipeline.toml"
        file.write_text(PIPELINE.format(url=server.url, fallback=fallback))
        self.resources = Resources(Settings(home=home), load_pipeline(file), redis.url)
        embedder = SlowEmbedder()
        self.resources.embedder = embedder  # type: ignore[assignment]
        store = self.resources.writing_store
        store.create("default", manifest_of(embedder))
        documents = [
            Document(
                document_id=name,
                source="tests",
                title=title,
                passages=(Passage(f"{name}#0", 0, text, end=len(text), vector=vector),),
                metadata={},
                content_hash=name,
                revision=name,
            )
            for (name, (title, text)), vector in zip(
                CORPUS.items(), embedder.embed_questions([text for _, text in CORPUS.values()]), strict=True
            )
        ]
        store.upsert("default", documents)

    def search(
        self, questions: list[Any], *, limit_s: float, clock: Callable[[], float] = time.monotonic
    ) -> tuple[list[Ranking], Part, float]:
        """What was found, the part with its notes, and the seconds that it took."""
        request = make_request(questions, cache="bypass")
        store, began_s = self.resources.store("local"), clock()
        part = Part(
            self.resources,
            store,
            branch("hyde"),
            request,
            request.questions,
            began_s + limit_s,
            0,
            clock=clock,
        )
        return search_hyde(part), part, clock() - began_s


def given(count: int) -> list[dict[str, Any]]:
    """Questions with two documents each."""
    return [
        {"text": f"bread {place}", "hypothetical_documents": ["bread is baked", "flour and water"]}
        for place in range(count)
    ]


@pytest.mark.parametrize(("fallback", "instead"), [("feedback", "feedback"), ("none", "left out")])
def test_documents_that_there_is_no_time_to_embed_hold_nobody_up(
    tmp_path: Path, redis_server: RedisServer, server: ChatServer, fallback: str, instead: str
) -> None:
    hyde = Hyde(tmp_path, redis_server, server, fallback=fallback)
    # Twenty questions of two documents would take 2 s; here there is time for seven of them.
    found, part, took_s = hyde.search(given(20), limit_s=AFTER_S + 0.75)
    assert took_s < AFTER_S + 0.75
    embedded = len(hyde.resources.embedder.embedded) // 2  # type: ignore[attr-defined]
    assert 1 <= embedded <= 7
    assert [(one.where, one.reason) for one in part.degraded] == [("hypothesis", "budget")]
    said = f"hyde: no time to embed the documents of {20 - embedded} of 20 questions; {instead}"
    assert part.degraded[0].detail == said
    has_hits = [len(one.hits) > 0 for one in found]
    assert has_hits == [True] * (20 if fallback == "feedback" else embedded) + [False] * (
        0 if fallback == "feedback" else 20 - embedded
    )


def test_the_model_leaves_the_time_that_embedding_its_documents_takes(
    tmp_path: Path, redis_server: RedisServer, server: ChatServer
) -> None:
    server.forget()
    hyde = Hyde(tmp_path, redis_server, server, fallback="feedback")
    hyde.search(["bread"], limit_s=20)
    each_s = hyde.resources.generators.document_s
    assert each_s >= EACH_S
    server.answer = after(5, says("too late"))

    def given_s(questions: int, limit_s: float) -> float:
        """What the model may take, by a clock that stands still."""
        texts = [f"bread {place}" for place in range(questions)]
        _, part, _ = hyde.search(texts, limit_s=limit_s, clock=lambda: 0.0)
        (missing,) = part.degraded
        assert "no answer within" in missing.detail, missing
        (said,) = re.findall(r"no answer within (.*) s;", missing.detail)
        return float(said)

    # Four questions of two documents.
    assert given_s(4, AFTER_S + 1.5) == pytest.approx(1.5 - 8 * each_s, abs=0.01)
    # Where embedding would take longer than that, the model still has half of the time.
    assert given_s(40, AFTER_S + 1.2) == pytest.approx(0.6, abs=0.01)


def test_longer_documents_than_the_last_ones_are_seen_at_once(
    tmp_path: Path, redis_server: RedisServer, server: ChatServer
) -> None:
    hyde = Hyde(tmp_path, redis_server, server, fallback="feedback")
    hyde.resources.generators.document_s = EACH_S / 10
    # .1 s for the first question, after which there is time for none; by the mean of before there would be.
    hyde.search(given(3), limit_s=AFTER_S + 0.1 + 0.08)
    assert len(hyde.resources.embedder.embedded) == 2  # type: ignore[attr-defined]


def test_after_a_machine_that_stood_still_documents_are_embedded_again(
    tmp_path: Path, redis_server: RedisServer, server: ChatServer
) -> None:
    hyde = Hyde(tmp_path, redis_server, server, fallback="none")
    hyde.resources.generators.document_s = 50.0
    for _ in range(12):
        found, part, _ = hyde.search(given(2), limit_s=AFTER_S + 1)
        # The first question's, whatever it was thought to take.
        assert found[0].hits
    assert part.degraded == []
