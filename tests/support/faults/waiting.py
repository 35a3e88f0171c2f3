"""Waits for the effects of a fault."""

from __future__ import annotations

from typing import Any

from chorale_client import Answer
from chorale_client.keys import ENTRY

from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until


def one_branch_is_missing(pipeline: RunningPipeline, request_id: str) -> None:
    """Returns once all branches of the request but one have reported."""
    until(lambda: pipeline.redis.hget(ENTRY + request_id, "left") == b"1")


def is_whole(pipeline: RunningPipeline, **options: Any) -> bool:
    """Returns whether every branch answers a request, as in a healthy pipeline."""
    answer = pipeline.client().retrieve("bread", **{"cache": "bypass", "timeout_s": 20, **options})
    return answer.status == "complete"


def ended_late_with_the_hits_of_bm25_and_hyde(answer: Answer) -> None:
    """Checks a request whose branch `vector` was paused, and which nobody could end before its time was over."""
    assert answer.status == "degraded"
    assert {missing.where: missing.reason for missing in answer.degraded} == {
        "fuse": "not_started",
        "search.vector": "not_started",
        "fetch": "budget",
    }
    assert {branch for hit in answer.hits for branch in hit.found_by} == {"bm25", "hyde"}
