"""Requests and plans for the state machine of the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chorale_client import Request, make_request
from chorale_client.keys import FLIGHT
from chorale_client.words import QUEUE_FUSION
from hypothesis import strategies as st
from pydantic_core import to_json

from ledger.protocol import Part

BRANCHES = ("bm25", "hyde", "vector")
QUEUES = (*(f"queue.{branch}" for branch in BRANCHES), QUEUE_FUSION, "queue.retrieve")
TIMEOUTS_S = (0.05, 0.203, 0.5, 1.0, 3.0)

branches = st.sampled_from(BRANCHES)
statuses = st.sampled_from(("ok", "ok", "empty", "failed"))
NTH = st.integers(0, 5)
ATTEMPTS = st.sampled_from((1, 1, 2))
RARELY = st.integers(0, 9).map(lambda one: one == 9)


@dataclass(frozen=True, slots=True)
class Planned:
    branches: set[str]
    limit_ms: int
    resend_ms: int
    flight: str | None
    is_lean: bool
    hedge_ms: int | None = None
    decisive: frozenset[str] = frozenset()
    lease_ms: int = 0


PLANS = st.builds(
    Planned,
    branches=st.sampled_from(({"bm25"}, {"bm25", "vector"}, set(BRANCHES), set[str]())),
    limit_ms=st.sampled_from((0, 50, 300, 2_000)),
    resend_ms=st.sampled_from((20, 50, 250, 1_000)),
    flight=st.sampled_from((FLIGHT + "x", FLIGHT + "x", FLIGHT + "y", None)),
    is_lean=st.booleans(),
    hedge_ms=st.sampled_from((None, None, 30, 100, 400)),
    lease_ms=st.sampled_from((0, 0, 40, 150, 400)),
    decisive=st.sampled_from((frozenset(), frozenset(), frozenset({"vector"}), frozenset(BRANCHES))),
)


def a_request(request_id: str, timeout_s: float, top_k: int = 5) -> Request:
    return make_request("bread", request_id=request_id, timeout_s=timeout_s, top_k=top_k)


def plan_of(parts: Iterable[Part]) -> bytes:
    """Returns what the scripts read of a plan."""
    return to_json({"v": 1, "branches": [{"name": part.branch, "queue": part.queue} for part in parts]})


def reserves_ms(timeout_ms: int) -> tuple[int, int]:
    """Returns a planner's (finish, fusion) reserves."""
    finish_ms = min(60, timeout_ms // 5)
    return finish_ms, finish_ms + min(100, timeout_ms * 2 // 5)


def tail(status: str) -> str:
    return f'"v":1,"status":"{status}","questions":[]}}'
