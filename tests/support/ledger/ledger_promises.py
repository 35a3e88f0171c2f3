"""The promises of the ledger after every step, checked against the steps that the test remembers."""

from __future__ import annotations

import re
from collections import Counter

from chorale_client.ledger import Accepted
from chorale_client.protocol_constants import ProtocolConstants

from ledger.protocol import Action
from tests.support.ledger.stepped_ledger import View

NUMBERS = re.compile(
    rb"accepted_at|deadline|answer_ttl|(retrieve|fuse)_sent|left|join_at|(finish|fusion)_reserve|fusing_until"
    rb"|(limit|resend|resent|started|hedge|hedged|again|lease|failed|decisive):.*"
)


class Promises:
    def __init__(self, constants: ProtocolConstants) -> None:
        self.most_sent = {
            "part": constants.resends,
            "hedge": 1,
            "fuse": constants.fuses,
            "retrieve": constants.retrieves,
            "plan": constants.plans,
        }
        """How often a sweeper may send each message of one request."""
        self.accepted: dict[str, Accepted] = {}
        """By id, the last request that has to end: it was accepted, and its entry was never lost."""
        self.reported: dict[str, dict[str, bytes]] = {}
        """By id and branch, the branch results that the ledger took before the snapshot."""
        self.ends_due: Counter[str] = Counter()
        """How often each id may end."""
        self.sent: Counter[tuple[str, str, str | None]] = Counter()
        """How often a sweeper sent each message of the present request of an id."""
        self.followed: Counter[str] = Counter()

    def expect(self, request_id: str, accepted: Accepted) -> None:
        """Notes that a request was accepted, so that it must end once."""
        self.accepted[request_id] = accepted
        self.ends_due[request_id] += 1
        self.forget(request_id)

    def forget(self, request_id: str) -> None:
        """Notes that the id now stands for another request."""
        self.reported[request_id] = {}
        del self.followed[request_id]
        for known in [one for one in self.sent if one[0] == request_id]:
            del self.sent[known]

    def is_of(self, request_id: str, fields: dict[bytes, bytes]) -> bool:
        """Returns whether this is the end of the request that was accepted last with this id."""
        known = self.accepted.get(request_id)
        if known is None or fields[b"by"] == b"admission":
            return False
        return int(fields[b"accepted_at"]) == known.accepted_at_ms

    def ended(self, view: View) -> set[str]:
        """Returns the ids whose last request has ended."""
        return {request_id for request_id, fields in _ends(view) if self.is_of(request_id, fields)}

    def hold(self, view: View, now_ms: int, *, is_swept: bool) -> None:
        self._every_request_in_flight_has_a_next_moment(view)
        self._times_and_counts_are_written_in_digits(view)
        self._a_request_ends_once(view)
        self._an_end_has_the_reports_before_the_snapshot_and_leaves_nothing(view, now_ms)
        self._a_cancelled_answer_is_its_own_requests_alone(view)
        if is_swept:
            self._no_end_comes_late(view, now_ms)

    def count(self, action: Action) -> None:
        """Counts a due action, and checks that no message is sent too often."""
        do = action.do
        self.sent[action.request_id, do, action.branch] += 1
        if do in self.most_sent:
            # A follower that is planned anew counts from the start.
            again = self.followed[action.request_id] if do in ("retrieve", "plan") else 0
            assert self.sent[action.request_id, do, action.branch] <= self.most_sent[do] * (1 + again), action

    def _every_request_in_flight_has_a_next_moment(self, view: View) -> None:
        assert view.moments.keys() >= view.entries.keys()
        assert all(moment.is_integer() for moment in view.moments.values())

    def _times_and_counts_are_written_in_digits(self, view: View) -> None:
        for field, value in view.fields:
            assert not NUMBERS.fullmatch(field) or re.fullmatch(rb"-?\d+", value), (field, value)

    def _a_request_ends_once(self, view: View) -> None:
        assert Counter(request_id for request_id, _ in _ends(view)) <= self.ends_due

    def _an_end_has_the_reports_before_the_snapshot_and_leaves_nothing(self, view: View, now_ms: int) -> None:
        """A caller's login cannot reach leaders and followers: the next sweep and the TTL do the rest."""
        for request_id, fields in _ends(view):
            if not self.is_of(request_id, fields):
                continue
            prefix = b"result:"
            entered = {
                name[len(prefix) :].decode(): fields[name] for name in fields if name.startswith(prefix)
            }
            reported = self.reported[request_id]
            assert entered.keys() == reported.keys()
            assert all(_says_the_same(entered[name], reported[name]) for name in entered)
            is_by_caller = fields[b"by"] == b"client"
            assert request_id not in view.entries
            assert is_by_caller or request_id not in view.moments
            assert view.moments.get(request_id, 0) <= now_ms
            assert is_by_caller or request_id not in view.leaders.values()

    def _a_cancelled_answer_is_its_own_requests_alone(self, view: View) -> None:
        for _, fields in _ends(view):
            assert fields[b"by"] != b"leader" or b'"status":"cancelled"' not in fields[b"answer"]

    def _no_end_comes_late(self, view: View, now_ms: int) -> None:
        for request_id, known in self.accepted.items():
            if request_id in view.entries:
                assert now_ms <= _latest_ms(known)
        for request_id, fields in _ends(view):
            if self.is_of(request_id, fields):
                assert int(fields[b"ended_at"]) <= _latest_ms(self.accepted[request_id])


def reserves_ms(timeout_ms: int) -> tuple[int, int]:
    """Returns a planner's (finish, fusion) reserves."""
    finish_ms = min(60, timeout_ms // 5)
    return finish_ms, finish_ms + min(100, timeout_ms * 2 // 5)


def _latest_ms(known: Accepted) -> int:
    return known.deadline_ms + reserves_ms(known.deadline_ms - known.accepted_at_ms)[0]


def _ends(view: View) -> list[tuple[str, dict[bytes, bytes]]]:
    return [(fields[b"id"].decode(), fields) for fields in view.outbox]


def _says_the_same(entered: bytes, reported: bytes) -> bool:
    """Returns whether an outbox entry has the reported branch result; it lacks the candidates while many entries wait."""
    return entered == reported or (b'"left_out":true' in entered and b'"status":"ok"' in reported)
