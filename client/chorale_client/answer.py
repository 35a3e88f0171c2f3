"""What comes back.  Read tolerantly: words are open strings, fields of newer versions are left out.

What the request did not include is empty here: None, "" or an empty collection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from chorale_client.words import WIRE_VERSION


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Degradation(_Read):
    """What was missing, and why."""

    where: str
    """A stage, or `search.<branch>`."""
    reason: str
    """A word of `chorale_client.words.Reason`, which says what follows from it."""
    detail: str = ""


class StageLine(_Read):
    """One line of the waterfall: a stage, or `search.<branch>`, over all questions of the request."""

    stage: str
    status: str = "ok"
    """`ok`, `partial`, `skipped` or `failed`."""
    ms: float = 0.0
    """Milliseconds it took."""
    n_in: int | None = None
    """How many hits, passages or questions went in."""
    n_out: int | None = None
    start_ms: float | None = None
    """When it began, in milliseconds from the acceptance of the request."""
    detail: str | None = None


class Snippet(_Read):
    """The part of the passage that answers to the question best."""

    text: str
    highlights: tuple[tuple[int, int], ...] = ()
    """[start, end) in `text`, in characters."""


class BranchScore(_Read):
    """What one branch said of a hit."""

    rank: int
    """Among the branch's documents, from 1."""
    score: float | None = None
    """On the branch's own scale."""
    normalised: float
    """What the fusion method made of rank or score."""
    weight: float
    """What the value counts: the branch's weight, or under `rrf-grouped` its share of its group's weight."""
    contribution: float
    """weight x normalised."""
    passage_id: str
    """The branch's best passage of the document."""


class Folded(_Read):
    """A copy that gave way to the hit."""

    document_id: str
    why: str
    """`exact_copy` or `near_duplicate`."""
    similarity: float | None = None
    """1 for an exact copy; None where only the group is known."""


class Rerank(_Read):
    """What the reranker said of a hit."""

    score: float | None = None
    """Between 0 and 1 (the sigmoid of the cross-encoder's logit); comparable between questions."""
    stage: str
    """`reranked`; `coarse_fallback`: it was to be, and time or model failed; `coarse_only`: it was not to be."""
    fused_score: float | None = None
    """Sum of the contributions x product of the boosts, which the hit's score was before."""


class Hit(_Read):
    """A document with its best passage; score = sum of its contributions x product of its boosts, unless reranked."""

    rank: int
    """From 1, counted over the pages."""
    document_id: str
    passage_id: str
    score: float
    """Falls with the rank; comparable within one answer."""
    score_kind: str = ""
    """The scale of `score`: the fusion method's name, or `rerank`."""
    title: str | None = None
    text: str | None = None
    """The whole passage."""
    snippet: Snippet | None = None
    found_by: tuple[str, ...] = ()
    """Names of the branches that found the document."""
    source_type: str | None = None
    published_at: str | None = None
    """ISO 8601."""
    language: str | None = None
    url: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    """What was indexed with the document, without the fields above."""
    branches: dict[str, BranchScore] = Field(default_factory=dict)
    """By branch name."""
    boosts: dict[str, float] = Field(default_factory=dict)
    """Factors by name: `authority`, `recency`, and `bound`, which holds a hit back; those that are not 1."""
    rerank: Rerank | None = None
    folded: tuple[Folded, ...] = ()
    """Copies of the document that this hit stands for."""


class QuestionAnswer(_Read):
    """The answer to one question."""

    status: str
    """`complete`, `degraded`, `failed` or `skipped`."""
    hits: tuple[Hit, ...] = ()
    """Best first."""
    total_matches: int | None = None
    """At least so many documents matched."""
    confidence: float | None = None
    """Probability that a relevant document is among the hits; None where it is not computed."""
    context: Any = None
    """The hits' texts in one piece for a language model, where the request asked for it."""
    ordered_by: str = "score"
    coverage: float = 0.0
    """Share of the hits that branches of several groups found."""
    took_ms: float = 0.0
    """Milliseconds."""


class Answer(_Read):
    """The end of a request; for `status` see `chorale_client.words.Status`."""

    v: int = WIRE_VERSION
    """Version of the wire format that the service wrote."""
    request_id: str
    correlation_id: str | None = None
    status: str
    """The worst of the questions' statuses, or how the request ended without them."""
    degraded: tuple[Degradation, ...] = ()
    """What was missing; empty when the answer is whole."""
    stages: tuple[StageLine, ...] = ()
    warnings: tuple[str, ...] = ()
    cached: bool = False
    """Whether every question was answered from the cache."""
    took_ms: float = 0.0
    """Milliseconds from acceptance to end, by the Redis server's clock."""
    retry_after_s: float | None = None
    """Of a refused request: in how many seconds it is worth asking again."""
    questions: tuple[QuestionAnswer, ...] = ()
    """In the request's order; empty where the request ended before any was answered."""

    @property
    def hits(self) -> tuple[Hit, ...]:
        """Of the first question."""
        return self.questions[0].hits if self.questions else ()

    @classmethod
    def from_wire(cls, wire: str | bytes | Mapping[str, Any]) -> Answer:
        """Read the JSON document, or what it was decoded to; raises pydantic's ValidationError."""
        if isinstance(wire, str | bytes):
            return cls.model_validate_json(wire)
        return cls.model_validate(wire)
