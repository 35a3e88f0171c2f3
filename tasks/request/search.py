"""Parts of the chord: search all questions at once, and make branch results.

Every exception is caught: a failure is a branch result with a reason.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from chorale_client.request import Request
from chorale_client.wire_names import WIRE_VERSION, BranchStatus, Reason, Stage, StageStatus
from chorale_client.wire_reader import refusal
from structlog import get_logger

from config.model_declarations import DEFAULT_ENCODER
from fusion.branch_results import branch_stage
from fusion.conditions import relaxable_filters, without_filters
from fusion.rankings import collapse_ranking
from ledger.breaker_outcomes import ended_before_its_store, failed_in_its_encoder
from ledger.protocol import Started
from models.batching import in_batches
from models.branch_result import BranchResult, Degradation, StageNote
from models.declarations.extensions import BranchKind
from models.errors import BadIndex, InvalidAnswer, OtherEncoder, StageFailure, UnknownNamespace
from models.hits import Ranking
from models.plan import BranchPlan, Plan, read_planned
from tasks.branches.branch_task import BranchTask, searched_questions
from tasks.request.composing.ending import failure_of
from tasks.wiring.resources import Resources

log = get_logger("chorale.search")

LOGGED_AGAIN_S = 60.0
QUESTIONS_AT_ONCE = 4
"""Questions of a costly request that are searched together; after them the branch compares its time with its limit."""
CONCERNS_ALL = frozenset(
    {
        *(Reason.UNAVAILABLE, Reason.UNAUTHORISED, Reason.BAD_INDEX),
        *(Reason.NOT_CONFIGURED, Reason.MODEL_MISSING, Reason.BREAKER_OPEN),
    }
)
"""Reasons for which parts that are alike fail alike."""


@dataclass(frozen=True, slots=True)
class Part:
    """A message of a branch, and what the ledger started for it."""

    request_id: str
    branch: str
    started: Started
    attempt: int = 1
    v: int = WIRE_VERSION
    """The wire version of the message."""


def branch_task(
    resources: Resources,
    branch: BranchPlan,
    request: Request,
    plan: Plan,
    *,
    ends_at_s: float,
    begun_ms: float,
) -> BranchTask:
    """What the branch searches; raises StageFailure if its store does not open."""
    store, questions = resources.store(branch.store), searched_questions(request, plan)
    return BranchTask(resources, store, branch, request, questions, ends_at_s=ends_at_s, begun_ms=begun_ms)


def open_part(resources: Resources, part: Part, begun_s: float) -> BranchTask | BranchResult:
    """What a branch searches for one request, or the branch result of its failure.  `begun_s` is by the monotonic clock."""
    name, started = part.branch, part.started
    if (why := refusal(part.v)) is not None:
        return BranchResult.failed(name, Reason.NOT_CONFIGURED, f"message: {why}")
    if started.remaining_ms <= 0:
        return BranchResult.failed(name, Reason.LATE, f"taken {-started.remaining_ms} ms after its limit")
    if not started.is_signed:
        return BranchResult.failed(name, Reason.FORGED, "no worker of this installation made its plan")
    try:
        request, plan = read_planned(started.request, started.plan)
        assert plan is not None
        branch = next(branch for branch in plan.branches if branch.name == name)
        ends_at_s, begun_ms = begun_s + started.remaining_ms / 1000, started.since_accepted_ms
        return branch_task(resources, branch, request, plan, ends_at_s=ends_at_s, begun_ms=begun_ms)
    except StageFailure as failure:
        return BranchResult.failed(name, failure.reason, failure.detail)
    except Exception as error:
        log.exception("branch failed", branch=name)
        return BranchResult.failed(name, Reason.ERROR, f"{type(error).__name__}: {error}")


def answer_together(resources: Resources, parts: Sequence[BranchTask], begun_s: float) -> list[BranchResult]:
    """One search for parts that are alike (see `tasks.request.batch`); a branch result for each.

    If the search fails for a reason that may concern one of them alone, each part is searched by itself.
    """
    whole = parts[0] if len(parts) == 1 else _merged(parts)
    try:
        return _searched(resources, parts, whole, begun_s)
    except StageFailure as failure:
        if len(parts) > 1 and failure.reason not in CONCERNS_ALL:
            return [answer_together(resources, [part], begun_s)[0] for part in parts]
        if isinstance(failure, UnknownNamespace) and _is_news(whole.request.namespace):
            log.warning("unknown namespace", branch=whole.branch.name, error=str(failure))
        reason, detail = failure.reason, failure.detail
    except Exception as error:  # MemoryError too, which would make Celery end the worker
        if len(parts) > 1:
            log.warning("searched one by one", branch=whole.branch.name, error=str(error)[:200])
            return [answer_together(resources, [part], begun_s)[0] for part in parts]
        log.exception("branch failed", branch=whole.branch.name)
        reason, detail = Reason.ERROR, f"{type(error).__name__}: {error}"
    return [_failed(part, whole, reason, detail, begun_s) for part in parts]


_logged_s: dict[str, float] = {}


def _is_news(namespace: str) -> bool:
    """Whether a missing namespace is to be logged: once a minute, since every request of a wrong caller asks for it again."""
    now_s = time.monotonic()
    for name in [name for name, logged_s in _logged_s.items() if now_s - logged_s > LOGGED_AGAIN_S]:
        del _logged_s[name]
    return _logged_s.setdefault(namespace, now_s) == now_s


def _merged(parts: Sequence[BranchTask]) -> BranchTask:
    """The questions of all parts as one part, which ends when the first of them does."""
    return replace(
        parts[0],
        questions=[question for part in parts for question in part.questions],
        ends_at_s=min(part.ends_at_s for part in parts),
        notes=[],
        degraded=[],
    )


def _searched(
    resources: Resources, parts: Sequence[BranchTask], whole: BranchTask, begun_s: float
) -> list[BranchResult]:
    branch, request = whole.branch, whole.request
    # Read before searching: if documents are indexed meanwhile, the generations differ and the answer is not cached.
    kind = resources.pipeline.kinds.branches[branch.kind]
    generation = _follow(resources, whole)
    try:
        rankings = _rankings(resources, kind, whole)
    except (BadIndex, OtherEncoder):
        whole.known_encoder = None
        if _follow(resources, whole) == generation:
            raise
        # A rebuild with another encoder, or a move to another store, has ended meanwhile.
        generation, rankings = whole.generation, _rankings(resources, kind, whole)
    # A package's kind or store may return anything; fusion would fail on it.
    if complaint := next(filter(None, (ranking.complaint() for ranking in rankings)), None):
        raise InvalidAnswer(complaint[:500])
    if len(parts) > 1 and len(rankings) != len(whole.questions):
        raise InvalidAnswer(f"{len(rankings)} rankings for {len(whole.questions)} questions")
    if request.fuse_by == "document":
        rankings = [collapse_ranking(ranking, branch.depth) for ranking in rankings]
    ms, rest = (time.monotonic() - begun_s) * 1000, iter(rankings)
    branch_results = []
    for part in parts:
        own = tuple(rest if len(parts) == 1 else islice(rest, len(part.questions)))
        branch_results.append(
            BranchResult(
                branch=branch.name,
                status=BranchStatus.OK if any(ranking.hits for ranking in own) else BranchStatus.EMPTY,
                rankings=own,
                ms=ms,
                stages=(*_own_notes(part, whole), _whole_note(part, ms, own)),
                generation=generation,
                embedder=_own_embedder(whole),
                # Only a second search can degrade parts that are searched together, and only empty rankings had one.
                degraded=tuple(whole.degraded)
                if part is whole or not all(ranking.hits for ranking in own)
                else (),
            )
        )
    return branch_results


def _follow(resources: Resources, part: BranchTask) -> int | None:
    """Read the generation, and take the store that serves the namespace in it."""
    namespace = part.request.namespace
    part.generation = part.store.generation(namespace, timeout_s=part.remaining_s)
    part.store = resources.serving(part.branch.store, namespace, part.remaining_s, part.generation)
    return part.generation


def _own_embedder(part: BranchTask) -> str | None:
    encoder = part.known_encoder
    return None if encoder is None or encoder.name == DEFAULT_ENCODER else encoder.embedder.fingerprint


def _rankings(resources: Resources, kind: BranchKind, part: BranchTask) -> list[Ranking]:
    """One ranking a question.  The questions of a costly request are searched a few at a time, while there is time."""
    if not (part.branch.is_costly and kind.can_batch):
        return search_relaxed(kind, part)
    rankings: list[Ranking] = []
    notes: dict[str, StageNote] = {}
    for questions in in_batches(part.questions, QUESTIONS_AT_ONCE):
        if rankings and part.clock() >= part.ends_at_s:
            detail = f"no time for {len(part.questions) - len(rankings)} of {len(part.questions)} questions"
            part.degraded.append(Degradation(branch_stage(part.branch.name), Reason.BUDGET, detail))
            rankings += [Ranking()] * (len(part.questions) - len(rankings))
            break
        slice_ = replace(part, questions=questions, notes=[])
        slice_rankings = search_relaxed(kind, slice_)
        part.known_encoder, part.manifest = slice_.known_encoder, slice_.manifest
        if len(slice_rankings) != len(questions):
            raise InvalidAnswer(f"{len(slice_rankings)} rankings for {len(questions)} questions")
        rankings += slice_rankings
        for note in slice_.notes:
            so_far = notes.get(note.stage)
            notes[note.stage] = note if so_far is None else _added(so_far, note)
    part.notes += notes.values()
    return rankings


def search_relaxed(kind: BranchKind, part: BranchTask) -> list[Ranking]:
    """One ranking a question, in the part's own time.  A search that fails after the first one leaves its questions empty."""
    rankings = list(kind.search(part))
    filters = relaxable_filters(part.request)
    for count in range(1, len(filters) + 1):
        empty = [place for place, ranking in enumerate(rankings) if not ranking.hits]
        if not empty or len(rankings) != len(part.questions):
            break
        # Stages and reasons are kept in audit trails that must not name filters.
        started_s, relaxation = part.clock(), f"without {count} of the filters"
        again = replace(
            part,
            request=without_filters(part.request, count),
            questions=[part.questions[place] for place in empty],
            notes=[],
        )
        why: Degradation | None = None
        where = branch_stage(part.branch.name)
        if started_s >= part.ends_at_s:
            why = Degradation(where, Reason.BUDGET, f"no time to search {relaxation}")
        else:
            try:
                again_rankings = kind.search(again)
            except Exception as error:
                failure = failure_of(error, "relaxed search failed", branch=part.branch.name)
                why = Degradation(where, failure.reason, f"{relaxation}: {failure.detail}"[:500])
        if why is not None:
            part.degraded.append(why)
            break
        if len(again_rankings) != len(empty):
            raise InvalidAnswer(f"{len(again_rankings)} rankings for {len(empty)} questions {relaxation}")
        again.timed(Stage.SEARCH, started_s, relaxation)
        part.notes.append(again.notes[-1])
        for place, ranking in zip(empty, again_rankings, strict=True):
            if ranking.hits:
                rankings[place] = replace(ranking, relaxed=count)
    return rankings


def _added(note: StageNote, other: StageNote) -> StageNote:
    worse = note if note.status != StageStatus.OK else other
    return replace(worse, ms=note.ms + other.ms, n_in=(note.n_in or 0) + (other.n_in or 0))


def _failed(part: BranchTask, whole: BranchTask, reason: Reason, detail: str, begun_s: float) -> BranchResult:
    ms = (time.monotonic() - begun_s) * 1000
    stages = (*_own_notes(part, whole), _whole_note(part, ms, (), StageStatus.FAILED))
    branch_result = BranchResult.failed(part.branch.name, reason, detail, ms=ms, stages=stages)
    if reason == Reason.UNAUTHORISED and not ended_before_its_store(branch_result):
        # Logged once for each request that the breaker lets through.
        event = f"{'encoder' if failed_in_its_encoder(branch_result) else 'store'} refuses our key"
        log.error(event, branch=part.branch.name, store=part.branch.store, error=detail)
    return branch_result


def _own_notes(part: BranchTask, whole: BranchTask) -> list[StageNote]:
    if part is whole:
        return whole.notes
    count, own = len(whole.questions), len(part.questions)
    return [replace(note, n_in=own) if note.n_in == count else note for note in whole.notes]


def _whole_note(
    part: BranchTask, ms: float, rankings: Sequence[Ranking], status: StageStatus = StageStatus.OK
) -> StageNote:
    return StageNote(
        f"{Stage.SEARCH}.{part.branch.name}",
        status,
        ms,
        n_in=len(part.questions),
        n_out=sum(len(ranking.hits) for ranking in rankings),
        start_ms=part.begun_ms,
    )
