"""One soak from its first request to its tally."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from chorale_client.keys import ENTRY, OUTBOX, WAKEUPS
from redis.exceptions import RedisError

from ledger.backlog import read_quarantine
from records.database import open_database
from tests.soak import plain_chord
from tests.soak.adversary import Adversary
from tests.soak.crew import chorale, plain, wait_until
from tests.soak.forger import Forger
from tests.soak.questions import TIMEOUTS_S
from tests.soak.tally import Tally, judge_chorale, judge_plain_chord
from tests.support.pipelines import failpoints

STRIKES_PER_10_000 = 20
"""Faults that each step needs, in proportion; with fewer, the soak shows nothing about that step.  A short soak on a busy machine
strikes few steps: it needs one fault in all."""
SETTLING_S = 60.0
SLOWEST_REQUEST_S = 1.0
"""A soak that needs longer than this for each request is stuck."""


@dataclass(frozen=True, slots=True)
class Soak:
    name: str
    tally: Tally
    strikes: Mapping[str, int]
    """Faults that happened, by place."""
    elsewhere: Mapping[str, int]
    seconds: float
    complaints: Sequence[str]

    def to_wire(self) -> dict[str, Any]:
        tally = self.tally
        return {
            "name": self.name,
            "requests": tally.requests,
            "ended": tally.ended,
            "statuses": dict(tally.statuses),
            "reasons": dict(tally.reasons),
            "overrun_ms": {str(q): tally.overrun_ms(q) for q in (0.5, 0.99, 1.0)},
            **dict(tally.zeros),
            "faults": dict(self.strikes),
            "elsewhere": dict(self.elsewhere),
            "seconds": round(self.seconds),
        }


def soak(requests: int, seed: int) -> Soak:
    """Runs Chorale under the adversary; `complaints` is empty if every promise held."""
    with chorale(seed, requests) as crew:
        forger = Forger(crew.server.url, crew.redis, crew.begun, seed)
        forger.start()
        try:
            adversary, seconds, is_done = _fight(crew, requests, seed, failpoints.PLACES)
        finally:
            forger.stop()
        settled = wait_until(lambda: _is_settled(crew.redis), SETTLING_S)
        engine = open_database(f"sqlite:///{crew.database}")
        tally = judge_chorale(crew.askers.events(), crew.redis, engine, seed)
        engine.dispose()
        strikes = dict.fromkeys(failpoints.PLACES, 0) | failpoints.fault_counts(crew.redis)
        complaints = [f"{what}: {count}" for what, count in tally.zeros.items() if count]
        complaints += [*tally.wrong_joins[:5], *tally.contradicted[:5], *tally.not_ended[:5]]
        least = math.floor(STRIKES_PER_10_000 * requests / 10_000)
        complaints += [
            f"{place}: {count} faults, fewer than {least}"
            for place, count in strikes.items()
            if count < least
        ]
        if not any(strikes.values()):
            complaints.append("no fault at any step")
        complaints += [f"{what}: never" for what, count in forger.forged.items() if not count]
        if not is_done:
            complaints.append("the callers did not come to an end")
        if not settled:
            complaints.append(f"not at rest {SETTLING_S:.0f} s after the last request")
        elsewhere = {**adversary.struck, **forger.forged, "set aside": read_quarantine(crew.redis).entries}
        return Soak("chorale", tally, strikes, elsewhere, seconds, complaints)


def soak_of_plain_chord(requests: int, seed: int, *, acks_late: bool) -> Soak:
    """Runs a plain chord of the same branches under the same adversary."""
    with plain(seed, requests, acks_late=acks_late) as crew:
        adversary, seconds, _ = _fight(crew, requests, seed, plain_chord.PLACES)
        # Messages that are delivered again get time to end their requests.
        time.sleep(plain_chord.VISIBLE_AGAIN_S * 2 + max(TIMEOUTS_S))
        tally = judge_plain_chord(crew.askers.events(), crew.redis, seed)
        strikes = dict.fromkeys(plain_chord.PLACES, 0) | failpoints.fault_counts(crew.redis)
        return Soak(
            f"plain chord{', acks_late' * acks_late}", tally, strikes, dict(adversary.struck), seconds, []
        )


def _fight(crew: Any, requests: int, seed: int, places: Collection[str]) -> tuple[Adversary, float, bool]:
    began_s = time.monotonic()
    adversary = Adversary(crew, seed, places)
    adversary.start()
    try:
        is_done = wait_until(lambda: not crew.askers.at_work(), 60 + requests * SLOWEST_REQUEST_S)
    finally:
        adversary.stop()
    return adversary, time.monotonic() - began_s, is_done


def _is_settled(redis: Any) -> bool:
    with suppress(RedisError):
        entries = next(redis.scan_iter(ENTRY + "*", count=1_000), None)
        return redis.zcard(WAKEUPS) == 0 and redis.xlen(OUTBOX) == 0 and entries is None
    return False
