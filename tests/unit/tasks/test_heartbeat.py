"""A worker whose task takes too long writes no heartbeat, so that the supervisor restarts it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tasks.worker.heartbeat import Heartbeat


class Written:
    """Redis, which counts what is written."""

    count = 0

    def time(self) -> tuple[int, int]:
        return 0, 0

    def set(self, *_: object, **__: object) -> None:
        self.count += 1


@pytest.mark.parametrize("others", [0, 3], ids=["alone", "with others in between"])
def test_a_task_that_takes_too_long_stops_the_heartbeat_until_it_ends(
    monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    redis: Any = Written()
    beating = Heartbeat(redis, "worker", ["chorale.bm25"], hung_after_s=60)
    beating._begin()
    for _ in range(others):
        beating._begin()
        beating._end()

    now_s = 61.0
    beating.beat()
    assert redis.count == 0

    beating._end()
    beating.beat()
    assert redis.count == 1
