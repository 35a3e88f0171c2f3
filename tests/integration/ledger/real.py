"""The ledger by the server's own clock."""

from __future__ import annotations

import json
from typing import Any

from chorale_client import Request
from chorale_client.ledger import CallersLedger
from redis import Redis

from ledger.protocol import Snapshot
from tests.support.ledger.requests import BODY, a_request, plan
from tests.support.ledger.single_steps import SingleSteps


class Real:
    def __init__(self, redis: Redis) -> None:
        self.redis, self.ledger, self.callers = redis, SingleSteps(redis), CallersLedger(redis)

    def accepted(self, *branches: str, timeout_s: float = 10, **options: Any) -> Request:
        """Makes a new request.  A request with branches is planned, too.  The options are those of `chord`."""
        request = a_request(timeout_s)
        self.callers.accept(request)
        if branches:
            plan(self.ledger, request, *branches, **options)
        return request

    def wait_together(self, *messages: tuple[str, str]) -> None:
        """Messages, each with its task and the id of it, wait on the queue `together`, the first at its head."""
        for task, task_id in messages:
            self.redis.lpush("together", json.dumps({"headers": {"task": task, "id": task_id}}))

    def finish(self, request: Request) -> int | None:
        return self.ledger.finish(request.request_id, by="fusion", body=BODY, is_complete=True)

    def snapshot(self, request: Request) -> Snapshot:
        snapshot = self.ledger.join(request.request_id, force=True)
        assert snapshot is not None
        return snapshot
