"""The protocol of a request as a script over the real Lua scripts: `>>` does a step, and `<<` expects its result.

    script >> accept() >> plan("bm25", "vector") >> report("bm25") << "counted" >> join() << None

A step without `of` is a step of the one request `it`.  A failure shows the steps until then, what was expected, and what
was seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self

from chorale_client import Request, RequestIdConflict
from chorale_client.keys import COALESCING
from chorale_client.ledger import Accepted
from chorale_client.wire_names import QUEUE_FUSION

from ledger.protocol import Action, Entry
from models.branch_result import BranchResult
from tests.support.ledger.requests import CALLBACK, a_request, chord
from tests.support.ledger.stepped_ledger import ANSWER, SteppedLedger

P = ParamSpec("P")
IT = "it"


@dataclass(frozen=True, slots=True)
class Step:
    text: str
    do: Callable[[Script], object]


class Script:
    def __init__(self, stepped: SteppedLedger) -> None:
        self.stepped = stepped
        self.ledger, self.callers = stepped.ledger, stepped.callers
        self.requests: dict[str, Request] = {}
        self.begin_ms = stepped.now_ms()
        self.seen: object = None
        self._lines: list[str] = []

    def __rshift__(self, step: Step) -> Self:
        self._lines.append(f"{self.ms():>7,} ms  >> {step.text}")
        try:
            self.seen = step.do(self)
        except Exception as error:
            error.add_note("\n".join(self._lines))
            raise
        return self

    def __lshift__(self, expected: object) -> Self:
        if self.seen != expected:
            lines = [*self._lines, f"expected:   << {expected!r}", f"seen:       << {self.seen!r}"]
            raise AssertionError("\n".join(["a step had another result", *lines]))
        self._lines[-1] += f" << {expected!r}"
        return self

    def ms(self) -> int:
        """Milliseconds since the script began."""
        return self.stepped.now_ms() - self.begin_ms

    def entry(self, of: str = IT) -> Entry:
        entry = self.ledger.load(of)
        assert entry is not None, f"{of} is not in flight"
        return entry

    def result(self, of: str = IT) -> dict[str, Any] | None:
        """Celery's result document."""
        document = self.callers.result(of)
        return json.loads(document) if document else None

    def named(self, action: Action) -> str:
        """An action in words, as `hedge vector`, or `fuse of other`."""
        of = "" if action.request_id == IT else f" of {action.request_id}"
        return f"{action.do} {action.branch}{of}" if action.branch else f"{action.do}{of}"


def _step(do: Callable[Concatenate[Script, P], object]) -> Callable[P, Step]:
    @wraps(do)
    def made(*args: P.args, **options: P.kwargs) -> Step:
        arguments = [*map(repr, args), *(f"{name}={value!r}" for name, value in options.items())]
        return Step(f"{do.__name__}({', '.join(arguments)})", lambda script: do(script, *args, **options))

    return made


def _outcome(accepted: Accepted) -> str:
    return "new" if accepted.is_new else accepted.state


@_step
def accept(
    script: Script, /, of: str = IT, *, timeout_s: float = 10, within_s: float | None = None, **changed: Any
) -> str:
    """`new`, `refused`, `conflict`, or the state of a known request.  `changed` are other fields of the request."""
    known = script.requests.setdefault(of, a_request(timeout_s, request_id=of))
    request = known.model_copy(update=changed)
    try:
        return _outcome(script.callers.accept(request, within_s=within_s))
    except RequestIdConflict:
        return "conflict"


@_step
def submit(script: Script, /, *branches: str, of: str = IT, **changed: Any) -> object:
    """Accepts and plans in one step, with a plan for generation 7.  The outcome of both, and the cached answers."""
    request = script.requests.setdefault(of, a_request(request_id=of)).model_copy(update=changed)
    accepted, planned, cached = script.ledger.submit(
        script.callers, request, chord(*branches), 7, ["other", ANSWER]
    )
    return _outcome(accepted), planned, [one for one in cached if one]


@_step
def plan(
    script: Script, /, *branches: str, of: str = IT, coalescing_key: str | None = None, **options: Any
) -> str:
    """The options are those of `chord`."""
    return script.ledger.plan(
        of, chord(*branches, coalescing_key=coalescing_key and COALESCING + coalescing_key, **options)
    )


@_step
def start(script: Script, branch: str, of: str = IT) -> int | None:
    """The milliseconds that the branch has; None if nobody waits for it."""
    started = script.ledger.start(of, branch)
    return started.remaining_ms if started else None


@_step
def report(
    script: Script,
    branch: str,
    status: str = "ok",
    *,
    of: str = IT,
    attempt: int = 1,
    detail: str = "",
    accepted_at_ms: int | None = None,
) -> str:
    branch_result = BranchResult(
        branch, status, "error" if status == "failed" else None, detail, attempt=attempt
    )
    return script.ledger.report(of, branch, branch_result, accepted_at_ms=accepted_at_ms, callback=CALLBACK)


@_step
def join(script: Script, of: str = IT, *, force: bool = False) -> set[str] | None:
    """The branches whose branch results the fusion gets; None if it does not get the request."""
    snapshot = script.ledger.join(of, force=force)
    return set(snapshot.branch_results) if snapshot else None


@_step
def finish(
    script: Script, status: str = "complete", *, of: str = IT, by: str = "fusion", completed: str = ""
) -> int | None:
    """The milliseconds since the request was accepted; None if it had ended before."""
    body = f'{{"v":1,"status":"{status}","questions":[]}}'
    return script.ledger.finish(of, by=by, body=body, is_complete=status == "complete", completed=completed)


@_step
def cancel(script: Script, of: str = IT) -> str | None:
    """The status that the request has ended with; None if it is unknown."""
    ended = script.callers.cancel(of)
    return json.loads(ended)["result"]["status"] if ended else None


@_step
def answer(script: Script, of: str = IT) -> str | None:
    """The status of the answer; None if there is none."""
    ended = script.result(of)
    return ended["result"]["status"] if ended else None


@_step
def wait(script: Script, ms: int) -> None:
    script.stepped.step(ms)


@_step
def sweep(script: Script, ms: int | None = None, *, by: str = "the only sweeper") -> object:
    """The actions that are due now; with `ms` those of a sweeper that acts at each next moment within this time, by
    milliseconds since the script began.  Nobody does them.  None if another sweeper acts."""
    if ms is None:
        swept = script.ledger.sweep(by)
        return [script.named(action) for action in swept.actions] if swept.is_acting else None
    until = script.ms() + ms
    actions: dict[int, list[str]] = {}
    while True:
        swept, at_ms = script.ledger.sweep(by), script.ms()
        if swept.actions:
            actions[at_ms] = [script.named(action) for action in swept.actions]
        if at_ms == until:
            break
        next_ms = until if swept.next_in_ms is None else max(1, swept.next_in_ms)
        script.stepped.step(min(next_ms, until - at_ms))
    return actions


@_step
def queue(script: Script, branch: str | None = None) -> int:
    """The number of waiting messages of the branch, or of the fusion."""
    return len(script.stepped.queue(f"queue.{branch}" if branch else QUEUE_FUSION))


@_step
def lose_messages(script: Script, *branches: str) -> None:
    """Deletes the messages of these branches, or of the fusion."""
    script.stepped.drop(*([f"queue.{branch}" for branch in branches] or [QUEUE_FUSION]))


@_step
def lose_entry(script: Script, of: str = IT) -> None:
    script.stepped.lose(of)


@_step
def overload(script: Script, retry_after_ms: int | None = 1_500) -> None:
    """Refuses new requests from now on; None ends the refusing."""
    script.stepped.overload(retry_after_ms)


@_step
def ends_by(script: Script) -> list[tuple[str, str]]:
    """Who ended which request, in order."""
    return [(fields[b"id"].decode(), fields[b"by"].decode()) for fields in script.stepped.outbox()]


@_step
def hasten(script: Script, of: str = IT) -> None:
    """Makes the request due for the sweeper at once."""
    script.ledger.hasten(of)


@_step
def know(script: Script, generation: int | None, cached: bytes | None = None) -> None:
    """Sets the generation of the corpus, and the cached answer."""
    script.stepped.know(generation, cached)
