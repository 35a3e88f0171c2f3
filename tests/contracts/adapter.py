"""What every adapter promises, whatever its framework: inherited by one test class for each adapter."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from chorale_client import InvalidRequest, ServiceUnavailable
from chorale_client.coverage import Coverage
from chorale_client.keys import entry_key

from tests.support.pipelines.pipeline import CORPUS, RunningPipeline
from tests.support.waiting import until

QUESTION = "Who pays for repairs?"
PATIENT: dict[str, Any] = {"timeout_s": 20, "cache": "bypass"}


@dataclass(frozen=True)
class AdapterAnswer:
    """What an adapter returned, without the types of its framework."""

    documents: list[tuple[str, str, float]]
    """Document id, text and score, best first."""
    coverage: Coverage

    @property
    def ids(self) -> list[str]:
        return [document_id for document_id, _, _ in self.documents]


class AdapterContract(ABC):
    """`ask` and `ask_async` call the adapter as an application does, with options of a request."""

    @abstractmethod
    def ask(self, url: str, question: str, **options: Any) -> AdapterAnswer: ...

    @abstractmethod
    async def ask_async(self, url: str, question: str, **options: Any) -> AdapterAnswer: ...

    def both(self, url: str, question: str, **options: Any) -> list[AdapterAnswer]:
        with ThreadPoolExecutor(1) as threads:
            sync = threads.submit(self.ask, url, question, **options)
            answer = asyncio.run(self.ask_async(url, question, **options))
            return [sync.result(), answer]

    def test_the_best_document_comes_first_with_its_text_and_score(self, pipeline: RunningPipeline) -> None:
        options = {"branches": ["bm25", "vector"], "top_k": 3, **PATIENT}
        answer, asynchronous = self.both(pipeline.server.url, QUESTION, **options)
        ids, texts, scores = zip(*answer.documents, strict=True)
        assert (ids[0], texts[0]) == ("repairs", CORPUS["repairs"][1])
        assert len(ids) == 3
        assert list(scores) == sorted(scores, reverse=True)
        assert answer.coverage["branches"] == {"bm25": "ok", "vector": "ok"}
        assert (answer.coverage["status"], answer.coverage["missing"]) == ("complete", [])
        assert asynchronous.documents == answer.documents
        assert asynchronous.coverage["branches"] == answer.coverage["branches"]

    def test_a_failed_branch_raises_nothing_and_is_named(self, pipeline: RunningPipeline) -> None:
        for answer in self.both(
            pipeline.server.url, QUESTION, branches=["bm25", "raises"], on_missing="degrade", **PATIENT
        ):
            assert answer.ids[0] == "repairs"
            assert answer.coverage["status"] == "degraded"
            assert answer.coverage["branches"] == {"bm25": "ok", "raises": "error"}
            assert answer.coverage["missing"] == [
                {"where": "search.raises", "reason": "error", "detail": "RuntimeError: the disk is on fire"}
            ]
        # Without any branch there are no documents, and no error.
        for answer in self.both(pipeline.server.url, QUESTION, branches=["raises"], **PATIENT):
            assert answer.documents == []
            assert (answer.coverage["status"], answer.coverage["branches"]) == ("failed", {"raises": "error"})

    def test_a_branch_that_hangs_costs_only_the_time_limit(self, pipeline: RunningPipeline) -> None:
        options = {"branches": ["hangs"], "timeout_s": 0.5, "cache": "bypass"}
        for answer in self.both(pipeline.server.url, QUESTION, **options):
            assert answer.documents == []
            assert answer.coverage["branches"]["hangs"] in ("timeout", "not_started", "late")

    def test_filters_bind(self, pipeline: RunningPipeline) -> None:
        for answer in self.both(
            pipeline.server.url, QUESTION, branches=["vector"], filters={"year": {"lt": 2024}}, **PATIENT
        ):
            assert answer.ids == ["error"]

    def test_a_request_cancelled_elsewhere_has_no_documents_and_says_so(
        self, pipeline: RunningPipeline
    ) -> None:
        request_id = str(uuid4())
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(self.ask, pipeline.server.url, QUESTION, **hanging(request_id))
            until(lambda: pipeline.redis.hexists(entry_key(request_id), "started:hangs"))
            pipeline.client().cancel(request_id)
            answer = waiting.result(timeout=20)
        assert (answer.documents, answer.coverage["status"]) == ([], "cancelled")
        assert answer.coverage["request_id"] == request_id

    def test_a_cancelled_task_cancels_the_request(self, pipeline: RunningPipeline) -> None:
        """The event loop goes on while a request waits, else nothing could cancel it."""
        request_id = str(uuid4())

        async def status_after_cancelling() -> str:
            task = asyncio.create_task(self.ask_async(pipeline.server.url, QUESTION, **hanging(request_id)))
            while not pipeline.redis.hexists(entry_key(request_id), "started:hangs"):
                assert not task.done(), task
                await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return (await asyncio.to_thread(pipeline.client().answer, request_id, wait_s=20)).status

        assert asyncio.run(status_after_cancelling()) == "cancelled"

    def test_a_wrong_option_and_a_redis_that_is_away_are_errors(self, pipeline: RunningPipeline) -> None:
        with pytest.raises(InvalidRequest, match="top_k"):
            self.ask(pipeline.server.url, QUESTION, top_k=0)
        with pytest.raises(ServiceUnavailable):
            asyncio.run(self.ask_async("redis://127.0.0.1:1/0", QUESTION))


def patient(**options: Any) -> Any:
    """Options of an adapter, typed as its framework wishes."""
    return {**options, **PATIENT}


def hanging(request_id: str) -> dict[str, Any]:
    return {"request_id": request_id, "branches": ["hangs"], "timeout_s": 30, "cache": "bypass"}
