"""The words on the wire: statuses, stages, reasons, task names and queues.

These enums are what this version writes.  Words are read as open strings, so that a client accepts words that it does
not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

WIRE_VERSION: Final = 1


class Status(StrEnum):
    """The status of a request, or of one of its questions."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    COMPLETE = "complete"
    DEGRADED = "degraded"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    REFUSED = "refused"


WORST_FIRST = (
    Status.CANCELLED,
    Status.REFUSED,
    Status.FAILED,
    Status.DEGRADED,
    Status.COMPLETE,
    Status.SKIPPED,
)
"""The status of a request is the first of these that one of its questions has."""


class BranchStatus(StrEnum):
    """The result of one branch: `ok` and `empty` are answers, `failed` is not."""

    OK = "ok"
    EMPTY = "empty"
    FAILED = "failed"


class Stage(StrEnum):
    """The steps of a request; a branch is `search.<branch>`."""

    PLAN = "plan"
    CACHE = "cache"
    EXPAND = "expand"
    EMBED = "embed"
    SEARCH = "search"
    HYPOTHESIS = "hypothesis"
    RULES = "rules"
    COLLAPSE = "collapse"
    SCORE = "score"
    FUSE = "fuse"
    BOOST = "boost"
    FOLD = "fold"
    INTERLEAVE = "interleave"
    THRESHOLD = "threshold"
    FETCH = "fetch"
    RERANK = "rerank"
    GROUP = "group"
    DIVERSIFY = "diversify"
    AUTOCUT = "autocut"
    CONTEXT = "context"
    SNIPPET = "snippet"


class StageStatus(StrEnum):
    OK = "ok"
    PARTIAL = "partial"
    SKIPPED = "skipped"
    FAILED = "failed"


class RerankStage(StrEnum):
    """How far a hit came if a reranker is declared."""

    RERANKED = "reranked"
    COARSE_FALLBACK = "coarse_fallback"
    COARSE_ONLY = "coarse_only"


class Reason(StrEnum):
    """Why something is missing; `REASONS` says what each reason means."""

    NOT_DECLARED = "not_declared"
    RULE = "rule"
    ADAPTIVE = "adaptive"
    NOT_CONFIGURED = "not_configured"
    MODEL_MISSING = "model_missing"
    TIMEOUT = "timeout"
    NOT_STARTED = "not_started"
    LATE = "late"
    OVERLOAD = "overload"
    CANCELLED = "cancelled"
    UNAVAILABLE = "unavailable"
    BREAKER_OPEN = "breaker_open"
    BAD_INDEX = "bad_index"
    UNAUTHORISED = "unauthorised"
    FORGED = "forged"
    INVALID_ANSWER = "invalid_answer"
    BUDGET = "budget"
    DOCUMENT_MISSING = "document_missing"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Consequence:
    """The consequences of a reason for its answer."""

    degrades: bool
    cacheable: bool
    is_retryable: bool
    when: str


REASONS: dict[Reason, Consequence] = {
    Reason.NOT_DECLARED: Consequence(False, True, False, "this configuration declares nothing of that kind"),
    Reason.RULE: Consequence(False, True, False, "a skip rule decided against the step"),
    Reason.ADAPTIVE: Consequence(
        True, False, False, "fewer candidates than requested; their number was chosen before the start"
    ),
    Reason.NOT_CONFIGURED: Consequence(True, False, False, "the step is declared, but lacks what it needs"),
    Reason.MODEL_MISSING: Consequence(True, False, True, "the model is not there, or not loaded yet"),
    Reason.TIMEOUT: Consequence(True, False, True, "the step started and did not end before its limit"),
    Reason.NOT_STARTED: Consequence(True, False, True, "no worker took it before its limit"),
    Reason.LATE: Consequence(True, False, True, "a worker took it after its limit and did nothing"),
    Reason.OVERLOAD: Consequence(True, False, True, "its queue is too long"),
    Reason.CANCELLED: Consequence(
        True, False, False, "ended by the caller, or by the failure of a required branch"
    ),
    Reason.UNAVAILABLE: Consequence(True, False, True, "the store or server did not answer"),
    Reason.BREAKER_OPEN: Consequence(
        True, False, True, "the branch or store was left out after several failures"
    ),
    Reason.BAD_INDEX: Consequence(
        True, False, False, "missing or damaged index, wrong mapping, unknown namespace"
    ),
    Reason.UNAUTHORISED: Consequence(True, False, False, "the credentials are wrong"),
    Reason.FORGED: Consequence(
        True, False, True, "no worker of this installation has signed the plan or the branch's answer"
    ),
    Reason.INVALID_ANSWER: Consequence(True, False, True, "the answer of the store or model is not valid"),
    Reason.BUDGET: Consequence(True, False, True, "the time ended in the middle of the step"),
    Reason.DOCUMENT_MISSING: Consequence(
        False, True, False, "a passage is no longer in its store, so another hit takes its place (a warning)"
    ),
    Reason.ERROR: Consequence(True, False, True, "any other error; `detail` has its class"),
}


def consequence(reason: str) -> Consequence:
    """The consequences of `reason`; an unknown reason counts as `error`."""
    try:
        return REASONS[Reason(reason)]
    except ValueError:
        return REASONS[Reason.ERROR]


class Warned(StrEnum):
    """The word that a warning of an answer begins with; `WARNINGS` says what each means."""

    FILTER = "filter"
    QUESTIONS = "questions"
    REQUEST = "request"
    RULES = "rules"
    DEPTH = "depth"
    SOURCE = "source"
    DOCUMENT_MISSING = "document_missing"
    GROUP_BY = "group_by"
    CONTEXT_AROUND = "context_around"
    LANGUAGE = "language"
    ABSTAIN = "abstain"
    CACHE = "cache"


WARNINGS: dict[Warned, str] = {
    Warned.FILTER: "a condition that is invalid, names an unknown field, is met by no document, or has a value of another type "
    "than the documents",
    Warned.QUESTIONS: "no branch searches these variants or hypothetical documents, or BM25 searches only the first words of a question",
    Warned.REQUEST: "a field that this version does not know was ignored, or a task that should follow cannot be sent",
    Warned.RULES: "the rules of the namespace could not be read, and those that were read before hold; or the pipeline file does not "
    "allow its weights",
    Warned.DEPTH: "the store returns no more passages, so a branch has fewer documents than requested, or the hits end on this page "
    "and a larger `depth` has more",
    Warned.SOURCE: "hits of an endpoint, or values of their metadata, were left out, or a filter that the endpoint does not know was "
    "compared among its first hits alone",
    Warned.DOCUMENT_MISSING: "a passage is no longer in its store, so another hit takes its place",
    Warned.GROUP_BY: "no hit has the field",
    Warned.CONTEXT_AROUND: "passages around the hits were left out, because there are too many",
    Warned.LANGUAGE: "the encoder hardly knows the language of the namespace",
    Warned.ABSTAIN: "the confidence is not known, so nothing is `abstained`",
    Warned.CACHE: "the cache was not used, and why",
}


# Task names do not depend on module names: moving a file changes nothing on the wire.
TASK_RETRIEVE = "chorale.retrieve"
TASK_FUSE = "chorale.fuse"
TASK_INDEX = "chorale.index"
TASK_DELETE = "chorale.delete"
TASK_SEARCH = "chorale.search.{kind}"
TASK_ANSWER_LINES = "chorale.answer_lines"

STARTED_RESULT = '{"status":"STARTED",'
"""The beginning of Celery's result document of a request in flight."""

QUEUE_RETRIEVE = "chorale.retrieve"
QUEUE_FUSION = "chorale.fusion"
QUEUE_INDEX = "chorale.index"
QUEUE_BULK = "chorale.bulk"
QUEUE_BRANCH = "chorale.{branch}"

RESERVED_BRANCH_NAMES = frozenset({"retrieve", "fusion", "index", "bulk"})
"""Branches cannot have these names, which are queues of the pipeline."""

NO_NAMESPACE, THERE_ARE = "there is no namespace ", "; there are: "
"""How the detail of a search in an unknown namespace begins, and what comes before the names of those that are there."""
NO_ENCODER = "no encoder "
"""How the error of documents that name an unknown encoder begins."""
