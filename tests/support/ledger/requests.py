"""Requests, plans and branch results for steps of the ledger."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from chorale_client import Request, make_request
from pydantic_core import to_json

from ledger.protocol import BranchDispatch, Chord
from models.branch_result import BranchResult
from tests.support.ledger.single_steps import SingleSteps

CALLBACK = b"message of fuse"
BODY = '{"v":1,"status":"complete","questions":[]}'


def a_request(timeout_s: float = 10, **options: Any) -> Request:
    return make_request("bread", timeout_s=timeout_s, **options)


def chord(
    *branches: str,
    limit_ms: int = 10_000,
    resend_ms: int = 5_000,
    finish_ms: int = 60,
    fusion_ms: int = 160,
    coalescing_key: str | None = None,
    hedge_ms: int | None = None,
    lease_ms: int = 0,
    decisive: Collection[str] = (),
    message: str = "message of {}",
    is_costly: bool = False,
) -> Chord:
    parts = []
    for name in branches:
        sent, is_decisive = message.format(name).encode(), name in decisive
        parts.append(
            BranchDispatch(name, f"queue.{name}", limit_ms, resend_ms, sent, hedge_ms, is_decisive, lease_ms)
        )
    # The scripts read no more of a plan.
    costly = {"cost": "bulk"} if is_costly else {}
    planned = [{"name": part.branch, "queue": part.queue} for part in parts]
    plan = to_json({**costly, "v": 1, "branches": planned})
    return Chord(b"", plan, parts, finish_ms, fusion_ms, coalescing_key)


def plan(ledger: SingleSteps, request: Request, *branches: str, **options: Any) -> str:
    """Plans the request; the options are those of `chord`."""
    return ledger.plan(request.request_id, chord(*branches, **options))


def ok(branch: str, detail: str = "", *, attempt: int = 1) -> BranchResult:
    return BranchResult(branch, "ok", detail=detail, attempt=attempt)


def failed(branch: str, reason: str = "error", *, attempt: int = 1) -> BranchResult:
    return BranchResult.failed(branch, reason, attempt=attempt)
