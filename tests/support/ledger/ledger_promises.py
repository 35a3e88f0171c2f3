"""What the ledger promises at every moment, whatever was done to it before: checked against what a test remembers."""

from __future__ import annotations

import re
from collections import Counter

from chorale_client.ledger import Accepted

from ledger.protocol import Action
from tests.support.ledger.ledger_plans import reserves_ms
from tests.support.ledger.stepped_ledgers import View

NUMBERS = re.compile(
    rb"accepted_at|deadline|answer_ttl|(retrieve|fuse)_sent|left|join_at|(finish|fusion)_reserve|fusing_until"
    rb"|(limit|resend|resent|started|hedge|hedged|failed|decisive):.*"
)

CAPS = {"part": 2, "hedge": 1, "fuse": 3, "retrieve": 2, "plan": 2}
"""How often a sweeper sends each message of one request; `chorale.retrieve` again so often after following."""


class Promises:
    def __init__(self) -> None:
        self.accepted: dict[str, Accepted] = {}
        """Of each id the request that has to end: accepted, and its entry never lost."""
        self.reported: dict[str, dict[str, bytes]] = {}
        """What the ledger took of each request before its snapshot, by branch."""
        self.ends_due: Counter[str] = Counter()
        """How often each id may end."""
        self.sent: Counter[tuple[str, str, str | None]] = Counter()
        """What a sweeper sent of the request that an id stands for at present."""
        self.followed: Counter[str] = Counter()

    def expect(self, request_id: str, accepted: Accepted) -> None:
        """It was accepted, so it ends once."""
        self.accepted[request_id] = accepted
        self.ends_due[request_id] += 1
        self.forget(request_id)

    def forget(self, request_id: str) -> None:
        """Whatever was known of this id was of an earlier request."""
        self.reported[request_id] = {}
        del self.followed[request_id]
        for known in [one for one in self.sent if one[0] == request_id]:
            del self.sent[known]

    def is_of(self, request_id: str, fields: dict[bytes, bytes]) -> bool:
        """Whether this end is that of the request that was accepted last under this id."""
        known = self.accepted.get(request_id)
        if known is None or fields[b"by"] == b"admission":
            return False
        return int(fields[b"accepted_at"]) == known.accepted_at_ms

    def hold(self, view: View, now_ms: int, *, is_swept: bool) -> None:
        self._every_request_in_flight_has_a_next_moment(view)
        self._times_and_counts_are_written_in_digits(view)
        self._a_request_ends_once(view)
        self._no_answer_is_lost_that_came_before_the_snapshot(view)
        self._nothing_of_what_ended_is_left(view)
        self._a_cancelled_answer_is_its_own_requests_alone(view)
        if is_swept:
            self._no_end_comes_late(view, now_ms)

    def count(self, action: Action) -> None:
        """A sweeper found it due; no message is sent more often than its cap."""
        do = action.do.removesuffix("d") if action.do == "fused" else action.do
        self.sent[action.request_id, do, action.branch] += 1
        if do in CAPS:
            again = self.followed[action.request_id] if do in ("retrieve", "plan") else 0
            assert self.sent[action.request_id, do, action.branch] <= CAPS[do] * (1 + again), action

    def _every_request_in_flight_has_a_next_moment(self, view: View) -> None:
        assert view.moments.keys() >= view.entries.keys()
        assert all(moment.is_integer() for moment in view.moments.values())

    def _times_and_counts_are_written_in_digits(self, view: View) -> None:
        for field, value in view.fields:
            assert not NUMBERS.fullmatch(field) or re.fullmatch(rb"-?\d+", value), (field, value)

    def _a_request_ends_once(self, view: View) -> None:
        assert Counter(fields[b"id"].decode() for fields in view.outbox) <= self.ends_due

    def _no_answer_is_lost_that_came_before_the_snapshot(self, view: View) -> None:
        for fields in view.outbox:
            request_id = fields[b"id"].decode()
            if self.is_of(request_id, fields):
                kept = {
                    name.decode().removeprefix("envelope:"): value
                    for name, value in fields.items()
                    if name.startswith(b"envelope:")
                }
                assert kept == self.reported[request_id]

    def _nothing_of_what_ended_is_left(self, view: View) -> None:
        for fields in view.outbox:
            request_id = fields[b"id"].decode()
            if self.is_of(request_id, fields):
                assert request_id not in view.entries
                assert request_id not in view.moments
                assert request_id not in view.flights.values()

    def _a_cancelled_answer_is_its_own_requests_alone(self, view: View) -> None:
        for fields in view.outbox:
            assert fields[b"by"] != b"leader" or b'"status":"cancelled"' not in fields[b"answer"]

    def _no_end_comes_late(self, view: View, now_ms: int) -> None:
        for request_id, known in self.accepted.items():
            if request_id in view.entries:
                assert now_ms <= known.deadline_ms + _reserve_ms(known)
        for fields in view.outbox:
            request_id = fields[b"id"].decode()
            if self.is_of(request_id, fields):
                known = self.accepted[request_id]
                assert int(fields[b"ended_at"]) <= known.deadline_ms + _reserve_ms(known)


def _reserve_ms(known: Accepted) -> int:
    return reserves_ms(known.deadline_ms - known.accepted_at_ms)[0]
