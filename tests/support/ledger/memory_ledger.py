"""The model of the ledger: the Redis scripts in plain Python, for one thread."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

from chorale_client.errors import RequestIdConflict
from chorale_client.ledger import KEPT_AFTER_DEADLINE_S, SHORTEST_S, Accepted, fingerprint, head, is_refused
from chorale_client.protocol_constants import PROTOCOL, ProtocolConstants
from chorale_client.request import Request
from chorale_client.unanswered import (
    CANCELLED_QUESTION,
    CANCELLED_UNTIL_QUESTIONS,
    not_ended_tail,
    refused_tail,
    unaudited_tail,
)
from chorale_client.words import QUEUE_FUSION, EnvelopeStatus, Status

from ledger.protocol import (
    Action,
    Chord,
    End,
    Entry,
    PlanOutcome,
    ReportOutcome,
    Snapshot,
    Started,
    Sweep,
)
from models.envelope import Envelope
from tests.support.ledger.due_actions import due
from tests.support.ledger.expiring import Expiring
from tests.support.ledger.request_in_flight import PartInFlight, RequestInFlight

_SWEEPER = "the sweeper that acts"


class MemoryOutbox(deque[dict[bytes, bytes]]):
    """The fields of each entry, the oldest entry first."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self.refused = 0

    @property
    def share(self) -> float:
        return len(self) / self.limit if self.limit > 0 else 0


class MemoryLedger:
    """See `ledger.redis.RedisLedger`, and `chorale_client.ledger.CallersLedger` for the caller's side.

    `clock` gives milliseconds since 1970.  Messages wait in `queues`, the newest on the left as in Redis; ended
    requests wait in `outbox`, with the fields of the stream of that name.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], int],
        constants: ProtocolConstants = PROTOCOL,
        answer_ttl_s: float = 600,
    ) -> None:
        self._clock = clock
        self._constants = constants
        self._answer_ttl_ms = int(answer_ttl_s * 1000)
        self._requests: Expiring[RequestInFlight] = Expiring()
        self._results: Expiring[tuple[str, bytes]] = Expiring()
        self._flights: Expiring[str] = Expiring()
        self._followers: Expiring[dict[str, str]] = Expiring()
        """By leader, the flights of its followers by id."""
        self._acting: Expiring[str] = Expiring()
        self._moments: dict[str, int] = {}
        self.queues: defaultdict[str, deque[bytes]] = defaultdict(deque)
        self.outbox = MemoryOutbox(constants.default_outbox_limit)
        self.generation: int | None = None
        """The corpus generation."""
        self.cached: dict[str, bytes] = {}
        """Cached answers by key."""
        self.retry_after_ms: int | None = None
        """Unless this is None, new requests are refused."""

    def _now(self) -> int:
        now = self._clock()
        for kept in (self._requests, self._results, self._flights, self._followers, self._acting):
            kept.forget(now)
        return now

    def accept(self, request: Request, *, within_s: float | None = None) -> Accepted:
        """Enters the request, or refuses it; raises RequestIdConflict if its id belongs to a different request."""
        now, request_id, mark = self._now(), request.request_id, fingerprint(request)
        one, ended = self._requests.get(request_id), self._results.get(request_id)
        if one is not None and one.fingerprint == mark:
            return Accepted(request_id, one.state, False, one.accepted_at_ms, one.deadline_ms)
        gives_way = ended is not None and ended[0] == mark and is_refused(ended[1])
        if one is None and ended is not None and ended[0] == mark and not gives_way:
            return Accepted(request_id, "ended", False, 0, 0, result=ended[1])
        if one is not None or (ended is not None and not gives_way):
            raise RequestIdConflict(
                f"request_id: {request_id!r} was used for a different request; choose another id"
            )
        one = self._new(request, accepted_at_ms=now, within_s=within_s)
        tail = None
        if self.outbox.share >= 1:
            tail = unaudited_tail(one.questions)
        elif self.retry_after_ms is not None:
            tail = f'"retry_after_s":{self.retry_after_ms / 1000:.3f},{refused_tail(one.questions)}'
        if tail is not None:
            self._end(request_id, one, "admission", tail, now)
            result = self._results[request_id][1]
            return Accepted(request_id, Status.REFUSED, False, now, one.deadline_ms, result=result)
        self._results.pop(request_id)
        self._requests.put(request_id, one, until_ms=one.deadline_ms + KEPT_AFTER_DEADLINE_S * 1000)
        self._moments[request_id] = min(now + self._constants.plan_every_ms, one.end_at_ms)
        return Accepted(request_id, Status.ACCEPTED, True, now, one.deadline_ms)

    def _new(
        self, request: Request, *, accepted_at_ms: int, within_s: float | None = None
    ) -> RequestInFlight:
        timeout_s = request.timeout_s if within_s is None else max(within_s, SHORTEST_S)
        return RequestInFlight(
            request=request.model_dump_json().encode(),
            questions=len(request.questions),
            fingerprint=fingerprint(request),
            head=head(request),
            accepted_at_ms=accepted_at_ms,
            deadline_ms=accepted_at_ms + round(timeout_s * 1000),
            answer_ttl_ms=self._answer_ttl_ms,
            constants=self._constants,
        )

    def result(self, request_id: str) -> bytes | None:
        """Returns Celery's result document of an ended request, until it expires."""
        self._now()
        ended = self._results.get(request_id)
        return ended and ended[1]

    def state(self, request_id: str) -> str | None:
        """Returns the state of a request in flight, or None."""
        self._now()
        one = self._requests.get(request_id)
        return None if one is None else one.state

    def finish_failed(self, request: Request, accepted_at_ms: int) -> bytes:
        """Ends a request that nobody ended, even without its entry; returns the result, whoever wrote it."""
        now, request_id = self._now(), request.request_id
        if self._results.get(request_id) is None:
            one = self._requests.get(request_id) or self._new(request, accepted_at_ms=accepted_at_ms)
            tail = not_ended_tail(request, one.state)
            self._end(request_id, one, "client", tail, now)
            self._leave_followers(request_id, one, now)
        return self._results[request_id][1]

    def cancel(self, request_id: str) -> bytes | None:
        """Ends a request as `cancelled`; returns the result of its end, now or before, or None for an unknown request."""
        now, one = self._now(), self._requests.get(request_id)
        if one is not None:
            tail = CANCELLED_UNTIL_QUESTIONS + ",".join([CANCELLED_QUESTION] * one.questions) + "]}"
            self._end(request_id, one, "client", tail, now)
            self._leave_followers(request_id, one, now)
        ended = self._results.get(request_id)
        return ended and ended[1]

    def load(self, request_id: str) -> Entry | None:
        self._now()
        one = self._requests.get(request_id)
        return None if one is None else one.entry(request_id)

    def plan(
        self,
        request_id: str,
        chord: Chord,
    ) -> PlanOutcome:
        now, one = self._now(), self._requests.get(request_id)
        if one is None:
            return "closed"
        if one.state != "accepted":
            return "known"
        one.finish_reserve_ms, flight = chord.finish_reserve_ms, chord.flight
        if flight and self._follows(request_id, one, flight, now):
            return "follows"
        if flight:
            self._flights.put(flight, request_id, until_ms=max(now + 1, one.deadline_ms))
            one.flight = flight
        one.state, one.plan = "planned", chord.plan
        one.fusion_reserve_ms = chord.fusion_reserve_ms
        latest_ms = max((part.limit_ms for part in chord.parts), default=0)
        one.join_at_ms = min(now + latest_ms, one.deadline_ms - chord.fusion_reserve_ms)
        for part in chord.parts:
            one.parts[part.branch] = PartInFlight.of(part, now)
            self._push(part.queue, part.message)
        moments = [part.first_moment_ms for part in one.parts.values()]
        self._moments[request_id] = min([one.join_at_ms, *moments])
        return "planned"

    def submit(
        self, callers: Any, request: Request, chord: Chord, generation: int, cached: Sequence[str]
    ) -> tuple[Accepted, PlanOutcome | None, Sequence[bytes | None]]:
        """Accepts the request, and plans it if the plan holds.  `callers` is this ledger."""
        accepted = self.accept(request)
        if not accepted.is_new or self.generation != generation:
            return accepted, None, ()
        found = tuple(self.cached.get(key) for key in cached)
        if any(one is not None for one in found):
            return accepted, None, found
        return accepted, self.plan(request.request_id, chord), ()

    def _follows(self, request_id: str, one: RequestInFlight, flight: str, now: int) -> bool:
        """Follows the flight's leader, if there is one that ends no later than this request."""
        leader_id = self._flights.get(flight)
        leader = self._requests.get(leader_id) if leader_id and leader_id != request_id else None
        # A request that was lost and accepted again may lead another flight than before.
        if leader is None or leader.flight != flight or leader.end_at_ms > one.end_at_ms:
            return False
        if one.followed >= 2 or leader.finish_reserve_ms is None:
            return False
        assert leader_id is not None
        followers = {**(self._followers.get(leader_id) or {}), request_id: flight}
        self._followers.put(leader_id, followers, until_ms=max(now + 1, one.deadline_ms))
        one.state, one.leader, one.followed = "following", leader_id, one.followed + 1
        late_ms = max(now, leader.deadline_ms) + self._constants.follower_every_ms
        self._moments[request_id] = min(late_ms, one.end_at_ms)
        return True

    def _push(self, queue: str, message: bytes) -> None:
        if message:
            self.queues[queue].appendleft(message)

    def start(self, request_id: str, branch: str) -> Started | None:
        now, one = self._now(), self._requests.get(request_id)
        part = None if one is None else one.open_part(branch)
        if one is None or one.plan is None or part is None or part.status not in (None, "failed"):
            return None
        if part.started_at_ms is None:
            part.started_at_ms = now
        left_ms = min(part.limit_at_ms, one.join_at_ms) - now
        return Started(left_ms, one.request, one.plan, now - one.accepted_at_ms, one.accepted_at_ms)

    def report(
        self,
        request_id: str,
        branch: str,
        envelope: Envelope,
        *,
        accepted_at_ms: int | None = None,
        callback: bytes = b"",
    ) -> ReportOutcome:
        now, one = self._now(), self._requests.get(request_id)
        part = None if one is None else one.open_part(branch)
        if one is None or part is None:
            return "closed"
        if accepted_at_ms not in (None, one.accepted_at_ms):
            return "closed"
        outcome = part.take(envelope)
        if outcome != "counted":
            return outcome
        if part.is_decisive and part.status == EnvelopeStatus.FAILED:
            one.decided_by = branch
        if one.left > 0:
            return "counted"
        one.fuses_sent += 1
        self._moments[request_id] = min(now + self._constants.fuse_every_ms, one.end_at_ms)
        self._push(QUEUE_FUSION, callback)
        return "joined" if callback else "due"

    def call_fusion(self, callback: bytes) -> None:
        self._push(QUEUE_FUSION, callback)

    def join(self, request_id: str, *, force: bool = False) -> Snapshot | None:
        now, one = self._now(), self._requests.get(request_id)
        if one is None or not (force or one.may_join(now)):
            return None
        snapshot = one.entry(request_id).at(now)
        one.state = "fusing"
        reserve_ms = one.fusion_reserve_ms
        lease_ms = self._constants.sweeper_lease_ms if reserve_ms is None else reserve_ms
        if reserve_ms is not None and not force:
            half_ms = (one.end_at_ms - now) // 2
            lease_ms = max(lease_ms, min(self._constants.longest_fusion_lease_ms, half_ms))
        until = min(one.end_at_ms, now + lease_ms)
        one.fusing_until_ms = max(until, now + self._constants.shortest_fusion_ms)
        self._moments[request_id] = one.fusing_until_ms
        return snapshot

    def finish(
        self, request_id: str, *, by: str, tail: str, is_complete: bool, completed: str = ""
    ) -> int | None:
        now, one = self._now(), self._requests.get(request_id)
        if one is None:
            return None
        self._end(request_id, one, by, tail, now, completed)
        if one.flight is not None and self._flights.get(one.flight) == request_id:
            self._flights.pop(one.flight)
        self._release_followers(request_id, one.flight, tail, is_complete=is_complete, now=now)
        return now - one.accepted_at_ms

    def finish_all(self, ends: Sequence[End], *, by: str) -> list[tuple[int | None, list[bytes]]]:
        """The model has no breakers."""
        return [
            (
                self.finish(
                    end.request_id, by=by, tail=end.tail, is_complete=end.is_complete, completed=end.completed
                ),
                [],
            )
            for end in ends
        ]

    def _end(
        self, request_id: str, one: RequestInFlight, by: str, tail: str, now: int, completed: str = ""
    ) -> None:
        self._requests.pop(request_id)
        self._moments.pop(request_id, None)
        answer = one.answer(tail, now)
        result = one.result(request_id, answer, now)
        self._results.put(request_id, (one.fingerprint, result), until_ms=now + one.answer_ttl_ms)
        if by == "admission" and self.outbox.share >= 1:
            self.outbox.refused += 1
        else:
            is_filling = self.outbox.share >= self._constants.brief_from_share
            fields = one.outbox_fields(request_id, answer, by, now, is_filling=is_filling)
            self.outbox.append(
                fields | ({b"completed": completed.encode()} if completed and not is_filling else {})
            )

    def _leave_followers(self, request_id: str, one: RequestInFlight, now: int) -> None:
        """Leaves the followers to the sweeper's next look."""
        if one.flight is not None:
            self._moments[request_id] = now

    def _release_followers(
        self, leader_id: str, flight: str | None, tail: str, *, is_complete: bool, now: int
    ) -> None:
        """Gives followers of the flight the answer if it is complete or if they have less than half their time; others are
        planned anew.
        """
        followers = self._followers.get(leader_id) or {}
        self._followers.pop(leader_id)
        for request_id, followed in followers.items():
            one = self._requests.get(request_id)
            if one is None or one.state != "following":
                continue
            left_ms, whole_ms = one.deadline_ms - now, one.deadline_ms - one.accepted_at_ms
            is_late = left_ms < self._constants.replan_share * whole_ms
            if followed == flight and (is_complete or is_late):
                self._end(request_id, one, "leader", tail, now)
            else:
                one.state, one.retrieves_sent = "accepted", 0
                self._moments[request_id] = now

    def hasten(self, request_id: str) -> None:
        now, one = self._now(), self._requests.get(request_id)
        if one is not None:
            if one.state == "fusing":
                one.fusing_until_ms = now
            self._moments[request_id] = now

    def sweep(self, sweeper: str, *, most: int = 64) -> Sweep:
        now = self._now()
        if self._acting.get(_SWEEPER) not in (None, sweeper):
            return Sweep((), None, is_acting=False)
        self._acting.put(_SWEEPER, sweeper, until_ms=now + self._constants.sweeper_lease_ms)
        actions: list[Action] = []
        last: list[Action] = []
        in_order = sorted((moment, request_id) for request_id, moment in self._moments.items())
        for moment, request_id in in_order[:most]:
            if moment <= now and (one := self._requests.get(request_id)) is None:
                del self._moments[request_id]
                self._release_followers(request_id, None, "", is_complete=False, now=now)
            elif moment <= now and one is not None:
                # A leader that ends at the same moment ends its followers, with an answer.
                target = last if one.state == "following" and now >= one.end_at_ms else actions
                target += self._sweep_one(request_id, one, now)
        next_ms = min(self._moments.values(), default=None)
        return Sweep((*actions, *last), None if next_ms is None else max(0, next_ms - now), is_acting=True)

    def _sweep_one(self, request_id: str, one: RequestInFlight, now: int) -> tuple[Action, ...]:
        found = due(
            request_id,
            one,
            now,
            self._constants,
            is_led=one.leader is not None and one.leader in self._requests,
            is_empty=lambda queue: not self.queues.get(queue),
        )
        self._moments[request_id] = max(found.moment_ms, now + 1)
        return found.actions
