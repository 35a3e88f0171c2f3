"""Waiting for what a test has begun."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from chorale_client.keys import ENTRY

from tests.pipeline import RunningPipeline


def until(so: Callable[[], Any], limit_s: float = 20) -> None:
    """Return once `so`; fail if it never is."""
    give_up = time.monotonic() + limit_s
    while not so():
        assert time.monotonic() < give_up, "it never was so"
        time.sleep(0.01)


def one_branch_is_missing(pipeline: RunningPipeline, request_id: str) -> None:
    """Return once all branches of the request but one have reported."""
    until(lambda: pipeline.redis.hget(ENTRY + request_id, "left") == b"1")


def is_whole(pipeline: RunningPipeline, **options: Any) -> bool:
    """Whether a request is answered by every branch, as in a healthy pipeline."""
    asked = {"cache": "bypass", "timeout_s": 2, **options}
    return pipeline.client().retrieve("bread", **asked).status == "complete"
