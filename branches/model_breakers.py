"""The breakers of models behind an address: after several failures in a row nobody asks the model for a while, then one request.

The breaker of a language model is its branch's.  That of an encoder is shared by all branches and processes that use it.
"""

from __future__ import annotations

from collections.abc import Callable

from chorale_client.wire_names import Reason
from redis.exceptions import RedisError
from structlog import get_logger

from branches.branch_task import BranchTask
from ledger.breakers import Breaker
from ledger.outcomes import SHORTEST_FAIR_MS, Outcome, counts_of, encoder_name
from models.documents import Matrix
from models.errors import StageFailure

log = get_logger("chorale.model")


class NotAsked(StageFailure):
    """The model was not asked."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def open_breaker(task: BranchTask, name: str, allowed_s: float) -> Breaker | None:
    """The breaker for which the task may not ask this model; None if it may, since it is closed or the task probes it."""
    breakers = task.resources.breakers
    try:
        breaker = breakers.read([name]).breakers.get(name)
        if breaker is None or breakers.claim(task.request.request_id, [name], timeout_s=allowed_s):
            return None
    except RedisError as error:
        log.warning("breaker not read", breaker=name, error=str(error)[:200])
        return None
    return breaker


def count_outcome(task: BranchTask, outcome: Outcome) -> None:
    try:
        transitions = task.resources.breakers.count(task.request.request_id, [outcome])
    except RedisError as error:
        log.warning("outcome not counted", breaker=outcome.name, error=str(error)[:200])
        return
    for transition in transitions:
        log.warning("breaker opened" if transition.is_open else "breaker closed", breaker=transition.name)


def ask_encoder(task: BranchTask, call: Callable[[], Matrix]) -> Matrix:
    """The vectors of an endpoint.  Raises NotAsked if its breaker is open, and what `call` raises."""
    name, allowed_s = encoder_name(task.encoder.name), task.left_s
    if (breaker := open_breaker(task, name, allowed_s)) is not None:
        raise NotAsked(Reason.BREAKER_OPEN, str(breaker))
    try:
        vectors = call()
    except StageFailure as failure:
        counts = counts_of(failure.reason)
        was_fair = not counts.by_the_clock or allowed_s * 1000 >= SHORTEST_FAIR_MS
        fails = counts.branch and was_fair and not task.branch.is_costly
        count_outcome(task, Outcome(name, "failed" if fails else "says_nothing", str(failure.reason)))
        raise
    count_outcome(task, Outcome(name, "answered"))
    return vectors


def check_encoder(task: BranchTask) -> None:
    """Raises NotAsked if the encoder's breaker is open, before a language model writes what cannot be embedded."""
    if not task.encoder.is_endpoint:
        return
    name = encoder_name(task.encoder.name)
    try:
        snapshot = task.resources.breakers.read([name])
    except RedisError:
        return
    breaker = snapshot.breakers.get(name)
    if breaker is not None and (snapshot.now_ms < breaker.open_until_ms or breaker.is_probed):
        raise NotAsked(Reason.BREAKER_OPEN, str(breaker))
