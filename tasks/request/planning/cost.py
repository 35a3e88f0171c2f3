"""What a request will cost the workers, and where a costly one runs: on the bulk workers, so that nobody waits for it.

A step is what one worker does for a request without a pause: a branch, or the fusion.  Estimates are seconds of one core
with the default model; `CHORALE_COSTLY_S` says which are too long for a worker that others wait for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from chorale_client.filters import count_conditions
from chorale_client.keys import SERVED
from chorale_client.request import Question, Request
from chorale_client.wire_names import QUEUE_BULK
from redis.exceptions import RedisError
from structlog import get_logger

from models.declarations.extensions import Need
from models.plan import BranchPlan, Plan, embedding_s
from tasks.request.planning.live_pairs import is_shadow
from tasks.wiring.resources import Resources

log = get_logger("chorale.cost")

QUESTION_MS = 2.5
HIT_MS = 0.3
"""Time kept for each question after the first, and for each hit shown: about three times what an idle core takes."""


TOKEN_S, PASSAGE_PIECES = 16e-6, 256
"""The time to count a token of a context, first in its passage and then in the whole; the longest passage in tokens."""
SEARCH_S = 0.000_5
"""The time to search with one text."""
CONDITION_S = 0.01
"""The time to judge some 25,000 documents by one condition of a filter; the store keeps the result for the next search."""
CANDIDATE_S, HIT_S = 7e-6, 120e-6
"""The times to read and fuse one hit of a branch, and to show one hit with its snippet."""


def further_questions_ms(request: Request) -> float:
    """The time kept for the questions after the first: to join and fuse them, and to show the hits of each."""
    return (len(request.questions) - 1) * (QUESTION_MS + HIT_MS * request.top_k)


def packing_s(request: Request) -> float:
    """The time to count the tokens of a request's contexts."""
    tokens = request.context_tokens or 0
    if not request.context_around:
        tokens = min(tokens, request.top_k * PASSAGE_PIECES)
    return len(request.questions) * tokens * TOKEN_S


def placed_branches(
    resources: Resources, request: Request, plan: Plan, searched: Collection[int]
) -> tuple[BranchPlan, ...]:
    """The branches of the plan; those of a costly request and of a shadow go to the bulk workers.  `searched`: the
    indices of the questions that they search.

    If no worker serves `chorale.bulk`, a costly request is treated as any other.  A limit that is declared for callers would only
    say how long a shadow had to wait.
    """
    changes: dict[str, object] = {"is_costly": True, "queue": QUEUE_BULK}
    if is_shadow(request.request_id, plan.configuration, resources.pipeline.shadow):
        changes["limit_ms"] = round(1000 * request.timeout_s)
    else:
        cost_s = longest_step_s(resources, request, plan, searched)
        if cost_s <= resources.settings.costly_s:
            return plan.branches
        context = {"request_id": request.request_id, "estimated_s": round(cost_s, 2)}
        if not is_bulk_served(resources):
            log.warning("costly without a bulk worker", **context)
            return plan.branches
        log.info("costly", **context)
    return tuple(branch.model_copy(update=changes) for branch in plan.branches)


def is_bulk_served(resources: Resources) -> bool:
    try:
        return bool(resources.redis.exists(SERVED + QUEUE_BULK))
    except RedisError:
        return False


def longest_step_s(resources: Resources, request: Request, plan: Plan, searched: Collection[int]) -> float:
    """What a language model writes is not counted: it answers one request at a time in any case."""
    questions = [request.questions[index] for index in searched]
    candidates = sum(branch.depth for branch in plan.branches)
    fusion_s = len(questions) * (candidates * CANDIDATE_S + min(request.top_k, candidates) * HIT_S)
    fusion_s += packing_s(request)
    needs_of = resources.pipeline.needs_of
    filters_s = CONDITION_S * count_conditions(request.filters or {})
    return max(
        [
            fusion_s,
            *(filters_s + _branch_s(needs_of(branch_plan), questions) for branch_plan in plan.branches),
        ]
    )


def _branch_s(needs: Collection[Need], questions: Sequence[Question]) -> float:
    texts = [
        text
        for question in questions
        for text in (question.text, *(variant.text for variant in question.variants))
    ]
    embedded = texts if "questions" in needs else []
    if "passages" in needs:
        embedded = [*embedded, *(text for question in questions for text in question.hypothetical_documents)]
    return SEARCH_S * len(texts) + embedding_s(embedded)
