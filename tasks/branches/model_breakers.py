"""The breakers of models behind an address: after several failures in a row no request uses the model for a while,
and then one request tries it.

The breaker of a language model belongs to its branch.  The breaker of an encoder is shared by all branches and
processes that use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chorale_client.wire_names import Reason
from redis.exceptions import RedisError
from structlog import get_logger

from ledger.breaker_outcomes import SHORTEST_FAIR_MS, Outcome, Verdict, counts_of
from models.errors import StageFailure

if TYPE_CHECKING:
    from ledger.breakers import Breaker, Breakers
    from models.documents import Matrix

log = get_logger("chorale.model")


class NotCalled(StageFailure):
    """The model was not asked."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ModelBreaker:
    """The breaker of a model, as one request sees it.  Without Redis the model is asked."""

    breakers: Breakers
    name: str
    request_id: str

    def claim(self, allowed_s: float) -> Breaker | None:
        """None if the request may ask the model, since the breaker is closed or this request probes it."""
        try:
            breaker = self.breakers.read([self.name]).breakers.get(self.name)
            if breaker is None or self.breakers.claim(self.request_id, [self.name], timeout_s=allowed_s):
                return None
        except RedisError as error:
            log.warning("breaker not read", breaker=self.name, error=str(error)[:200])
            return None
        return breaker

    def check(self) -> None:
        """Raises NotCalled if no request may probe the model now."""
        try:
            snapshot = self.breakers.read([self.name])
        except RedisError:
            return
        breaker = snapshot.breakers.get(self.name)
        if breaker is not None and (snapshot.now_ms < breaker.open_until_ms or breaker.is_probed):
            raise NotCalled(Reason.BREAKER_OPEN, str(breaker))

    def count(self, verdict: Verdict, reason: str = "") -> None:
        try:
            transitions = self.breakers.count(self.request_id, [Outcome(self.name, verdict, reason)])
        except RedisError as error:
            log.warning("outcome not counted", breaker=self.name, error=str(error)[:200])
            return
        for transition in transitions:
            log.warning("breaker opened" if transition.is_open else "breaker closed", breaker=transition.name)

    def ask(self, call: Callable[[], Matrix], allowed_s: float, *, counts_failures: bool) -> Matrix:
        """What `call` returns or raises.  Raises NotCalled if the breaker is open."""
        if (breaker := self.claim(allowed_s)) is not None:
            raise NotCalled(Reason.BREAKER_OPEN, str(breaker))
        try:
            vectors = call()
        except StageFailure as failure:
            counts = counts_of(failure.reason)
            was_fair = not counts.by_the_clock or allowed_s * 1000 >= SHORTEST_FAIR_MS
            fails = counts_failures and counts.branch and was_fair
            self.count("failed" if fails else "says_nothing", str(failure.reason))
            raise
        self.count("answered")
        return vectors
