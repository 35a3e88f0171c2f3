"""A caller that writes into Redis what no client writes: entries, plans, answers of branches, messages."""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from chorale_client import Chorale, ChoraleError, make_request
from chorale_client.keys import ENTRY, GENERATION, OUTBOX, RESULT, WAKEUPS, entry_key
from chorale_client.ledger import CallersLedger
from chorale_client.wire_names import QUEUE_RETRIEVE, TASK_DELETE, TASK_RETRIEVE
from redis import Redis
from redis.exceptions import RedisError

from models.branch_result import BranchResult
from models.hits import Hit, Ranking
from tests.faults.test_bad_messages import body, message
from tests.soak.questions import BRANCHES, COMMON_OPTIONS, NAMESPACE, PREFIX, shared_question

REQUESTS_A_FORGERY = 5
OPTIONS: Any = {**COMMON_OPTIONS, "timeout_s": 1.5, "cache": "refresh"}
GARBAGE = (b"", b"soon", b"-1", b"0", b"1.5", b"{}", b"null", b"\xff", b"9" * 400)
FIELDS = (
    *(
        "state",
        "request",
        "fingerprint",
        "head",
        "accepted_at",
        "deadline",
        "answer_ttl",
        "plan",
        "left",
        "join_at",
    ),
    *(
        "finish_reserve",
        "fusion_reserve",
        "fusing_until",
        "leader",
        "mac",
        "followed",
        "decided",
        "limit:first",
    ),
    *("resend:first", "started:first", "status:first", "result:first", "mac:first"),
)


class Forger:
    """Forges after every few requests, each kind in turn; a Redis that is away is waited for."""

    def __init__(self, url: str, redis: Redis, begun: Callable[[], int], seed: int) -> None:
        self._client, self._redis, self._begun = Chorale(url), redis, begun
        self._chance = random.Random(f"forger {seed}")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="forger")
        self.forged: Counter[str] = Counter({f"forged: {kind}": 0 for kind in _KINDS})

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        assert self._thread.is_alive(), "the forger itself failed"
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        due, turn = 0, 0
        while not self._stop.wait(0.03):
            while self._begun() >= due and not self._stop.is_set():
                due += REQUESTS_A_FORGERY
                kind = list(_KINDS)[turn % len(_KINDS)]
                turn += 1
                with suppress(RedisError, ChoraleError):
                    if _KINDS[kind](self):
                        self.forged[f"forged: {kind}"] += 1

    def _write(self, request_id: str, fields: Mapping[Any, Any]) -> None:
        """Writes fields of an entry and makes the request due now; a caller's login can do this."""
        with self._redis.pipeline() as trip:
            trip.hset(entry_key(request_id), mapping=dict(fields))
            trip.zadd(WAKEUPS, {request_id: 0})
            trip.execute()

    def _planned_request(self) -> str | None:
        """A request of the forger's own, to a question that others ask too, and planned; None if it has ended."""
        request_id = self._client.send(shared_question(self._chance), request_id=_new_id(), **OPTIONS)
        for _ in range(100):
            if self._redis.hget(entry_key(request_id), "state") not in (None, b"accepted"):
                return request_id
            time.sleep(0.002)
        return None

    def _change(self, make: Callable[[Mapping[bytes, bytes]], Mapping[Any, Any]]) -> bool:
        """Changes fields of a request of the forger's own; returns whether the request was in flight."""
        request_id = self._planned_request()
        entry: Any = self._redis.hgetall(entry_key(request_id)) if request_id else None
        if not request_id or b"plan" not in entry:
            return False
        self._write(request_id, make(entry))
        return True

    def _entry(self) -> bool:
        some = self._chance.sample(FIELDS, self._chance.randrange(1, len(FIELDS)))
        self._write(_new_id(), {name: self._chance.choice(GARBAGE) for name in some})
        return True

    def _no_hash(self) -> bool:
        request_id = _new_id()
        self._redis.set(ENTRY + request_id, "x")
        self._redis.zadd(WAKEUPS, {request_id: 0, "nobody " + request_id: "-inf"})
        return True

    def _fields(self) -> bool:
        return self._change(lambda _: {self._chance.choice(FIELDS): self._chance.choice(GARBAGE)})

    def _branch_results(self) -> bool:
        """Answers of all branches, written before the plan: the branches' own come second, and do not count."""
        request = make_request(shared_question(self._chance), request_id=_new_id(), **OPTIONS)
        CallersLedger(self._redis).accept(request)
        rankings = (Ranking((Hit("forged#0", "forged", 1.0),)),)
        generation = int(self._redis.get(GENERATION + NAMESPACE) or 0)
        for name in BRANCHES:
            wire = BranchResult(name, "ok", rankings=rankings, generation=generation).to_wire()
            self._write(request.request_id, {f"result:{name}": wire, f"status:{name}": "ok"})
        sent = message(body({"request_id": request.request_id}), {"task": TASK_RETRIEVE, "id": _new_id()})
        self._redis.lpush(QUEUE_RETRIEVE, sent)
        return True

    def _plan(self) -> bool:
        def changed(entry: Mapping[bytes, bytes]) -> Mapping[Any, Any]:
            plan = json.loads(entry[b"plan"])
            plan["branches"][0] |= {"queue": "app", "depth": 1}
            return {"plan": json.dumps(plan)}

        return self._change(changed)

    def _request(self) -> bool:
        def changed(entry: Mapping[bytes, bytes]) -> Mapping[Any, Any]:
            request = json.loads(entry[b"request"])
            request["questions"][0]["text"] = shared_question(self._chance)
            return {"request": json.dumps(request)}

        return self._change(changed)

    def _leader(self) -> bool:
        return self._change(lambda _: {"coalescing_key": GENERATION + NAMESPACE})

    def _message(self) -> bool:
        drop = {"namespace": NAMESPACE, "whole_namespace": True}
        sent = (
            b"hello",
            message(body(drop), {"task": TASK_DELETE, "id": _new_id()}),
            message(body({"request": {"questions": 5}}), {"task": TASK_RETRIEVE, "id": _new_id()}),
            message(
                body({"request": {"questions": ["\ud800"], "linked": 5}}),
                {"task": TASK_RETRIEVE, "id": _new_id()},
            ),
            message(body({}), {"task": TASK_RETRIEVE, "id": f"{PREFIX}1-1:first"}),
        )
        self._redis.lpush(QUEUE_RETRIEVE, self._chance.choice(sent))
        return True

    def _end(self) -> bool:
        """An ended request for the audit, and an answer that nobody has asked for."""
        self._redis.xadd(OUTBOX, {"id": _new_id(), "answer": self._chance.choice(GARBAGE)})
        self._redis.set(RESULT + _new_id(), self._chance.choice(GARBAGE), ex=60)
        return True


def _new_id() -> str:
    return f"forged-{uuid.uuid4().hex}"


_KINDS: Mapping[str, Callable[[Forger], bool]] = {
    "entries": Forger._entry,
    "keys that are no hash": Forger._no_hash,
    "fields of an entry": Forger._fields,
    "branch_results": Forger._branch_results,
    "plans": Forger._plan,
    "requests": Forger._request,
    "leaders": Forger._leader,
    "messages": Forger._message,
    "ends": Forger._end,
}
