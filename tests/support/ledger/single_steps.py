"""The ledger with the steps of single requests: each is a batch of one."""

from __future__ import annotations

from typing import Any, cast

from chorale_client.keys import entry_key
from redis import Redis

from ledger.protocol import End, ReportOutcome, Started
from ledger.redis import RedisLedger
from ledger.signing import Signer
from models.branch_result import BranchResult

SIGNING_KEY = b"of the tests, which sign by themselves"
QUEUES = {branch: f"queue.{branch}" for branch in ("bm25", "hyde", "vector")}


class SingleSteps(RedisLedger):
    """Signs with a key of its own, so that Redis holds nothing but requests; with `signer` its plans are those of workers."""

    def __init__(self, client: Redis, *, signer: Signer | None = None, **options: Any) -> None:
        super().__init__(
            client, signer=signer or Signer(client, [SIGNING_KEY]), **{"queues": QUEUES, **options}
        )

    def report(
        self,
        request_id: str,
        branch: str,
        branch_result: BranchResult,
        *,
        accepted_at_ms: int | None = None,
        callback: bytes = b"",
    ) -> ReportOutcome:
        assert branch == branch_result.branch
        mac = self._field(request_id, "mac")
        started = None if accepted_at_ms is None else Started(0, b"", b"", 0, accepted_at_ms, mac=mac)
        return self.report_all([(request_id, branch_result, started, callback)])[0]

    def finish(
        self, request_id: str, *, by: str, body: str, is_complete: bool, completed: str = ""
    ) -> int | None:
        coalescing_key = self._field(request_id, "coalescing_key").decode() or None
        end = End(request_id, body, is_complete, coalescing_key=coalescing_key, completed=completed)
        return self.finish_all([end], by=by)[0][0]

    def _field(self, request_id: str, name: str) -> bytes:
        return cast("bytes | None", self._client.hget(entry_key(request_id), name)) or b""
