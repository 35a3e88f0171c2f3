"""The answer to a request.  It is read tolerantly: words are open strings, and unknown fields are ignored.

Fields that the request did not include are empty: None, "" or an empty collection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from chorale_client.wire_names import WIRE_VERSION


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Degradation(_Read):
    """A part of the answer that is missing, and why."""

    where: str
    """A stage, or `search.<branch>`."""
    reason: str
    """A word of `chorale_client.wire_names.Reason`; `chorale_client.wire_names.REASONS` says what follows from it."""
    detail: str = ""


class StageLine(_Read):
    """One line of the waterfall: a stage, or `search.<branch>`, over all questions of the request."""

    stage: str
    status: str = "ok"
    """`ok`, `partial`, `skipped` or `failed`."""
    ms: float = 0.0
    """Duration in milliseconds."""
    n_in: int | None = None
    """Number of hits, passages or questions that went in."""
    n_out: int | None = None
    start_ms: float | None = None
    """Start, in milliseconds after the acceptance of the request."""
    detail: str | None = None
    first_start_ms: float | None = None
    """When a worker first began a branch that was sent again, or that had not answered when the waiting ended."""
    sent_again_ms: float | None = None
    """When a second message for a branch was sent: a hedge, or another delivery."""


class Snippet(_Read):
    """The part of the passage that matches the question best."""

    text: str
    highlights: tuple[tuple[int, int], ...] = ()
    """Ranges [start, end) in `text`, in characters."""


class Match(_Read):
    """A place where a word of the question stands."""

    field: str
    """`title` or `text`."""
    start: int
    """The range [start, end) in the field, in characters."""
    end: int
    kind: str = "lexical"
    """`lexical`: the word, or one with the same stem."""


class BranchScore(_Read):
    """What one branch says about a hit."""

    rank: int
    """Among the branch's documents, from 1; 0 if the branch did not find the document and only scored it."""
    score: float | None = None
    """On the branch's own scale."""
    normalised: float
    """The rank or score as the fusion method normalised it."""
    weight: float
    """The branch's weight; with `rrf-grouped` the branch's share of its group's weight."""
    contribution: float
    """weight x normalised."""
    passage_id: str
    """The branch's best passage of the document."""


class Folded(_Read):
    """A copy of the hit that is not listed by itself."""

    document_id: str
    why: str
    """`exact_copy` or `near_duplicate`."""
    similarity: float | None = None
    """1 for an exact copy; None if only the group is known."""


class Rerank(_Read):
    """What the reranker says about a hit."""

    score: float | None = None
    """Between 0 and 1 (the sigmoid of the cross-encoder's logit); comparable between questions."""
    stage: str
    """`reranked`; `coarse_fallback`: reranking failed or had no time; `coarse_only`: the hit was not to be reranked."""
    fused_score: float | None = None
    """The hit's score before reranking: sum of the contributions x product of the boosts."""


class Hit(_Read):
    """A document with its best passage; score = sum of its contributions x product of its boosts, unless reranked."""

    rank: int
    """The hit's rank from 1, counted through all pages."""
    document_id: str
    passage_id: str
    score: float
    """Decreases with the rank, unless `ordered_by` says otherwise; comparable within one answer."""
    score_kind: str = ""
    """The scale of `score`: the fusion method's name, or `rerank`."""
    title: str | None = None
    pages: str | None = None
    """The pages of a PDF that the passage is on, counted from 1: `3`, or `3-4`; None if the document has no pages."""
    text: str | None = None
    """The whole passage."""
    snippet: Snippet | None = None
    matches: tuple[Match, ...] = ()
    """With `include: texts`, where the words of the question stand in title and text; at most 200 in each."""
    found_by: tuple[str, ...] = ()
    """Names of the branches that found the document."""
    source_type: str | None = None
    published_at: str | None = None
    """ISO 8601."""
    language: str | None = None
    url: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    """The metadata that was indexed with the document, without the fields above."""
    branches: dict[str, BranchScore] = Field(default_factory=dict)
    """Key: branch name."""
    boosts: dict[str, float] = Field(default_factory=dict)
    """Factors by name, except those that are 1: `authority`, `recency`, and `bound`, which limits a hit's score."""
    rerank: Rerank | None = None
    pinned: str | None = None
    """The rule of the namespace that puts the hit first.  If no branch found the document, its score is 0."""
    folded: tuple[Folded, ...] = ()
    """Copies of the document that this hit stands for."""


class Citation(_Read):
    """A document in the context of a question."""

    number: int
    """The number in the text: `[1]`, `[2]`, …"""
    document_id: str
    ranks: tuple[int, ...] = ()
    """The ranks of the hits that are this document, or passages of it."""
    passage_ids: tuple[str, ...] = ()
    """The passages of the document, in the order of the text."""
    pages: str | None = None
    """The pages of the passages: `3-4, 7`; None if the document has no pages."""


class Context(_Read):
    """The passages of the hits as a text for a language model."""

    text: str = ""
    """A block for each run of neighbouring passages, after a line such as `[1] Title > Heading, p. 3`."""
    tokens: int = 0
    citations: tuple[Citation, ...] = ()
    left_out: int = 0
    """Number of passages that did not fit."""


class QuestionAnswer(_Read):
    """The answer to one question."""

    text: str = ""
    """The question; empty if the request ended without a fusion."""
    status: str
    """`complete`, `degraded`, `failed` or `skipped`."""
    hits: tuple[Hit, ...] = ()
    """Best first."""
    total_matches: int | None = None
    """At least this many documents matched."""
    ordered_by: str = "score"
    """`score`; `pinned`: pinned hits, then the others by score; `mmr` with `diversity`: pinned hits, then the others, whose
    scores do not decrease with the rank."""
    removed: dict[str, int] = Field(default_factory=dict)
    """Number of hits that an option of the request removed, by the option: `min_branch_score` (a hit of several branches
    counts once for each), `min_fused_score`, `min_rerank_score`, `group_by`, `autocut`; and by the rules of the namespace: `blocked`."""
    rules: tuple[str, ...] = ()
    """The rules of the namespace that have changed this answer."""
    also_searched: tuple[str, ...] = ()
    """Synonyms that BM25 has searched too."""
    relaxed: tuple[str, ...] = ()
    """The conditions of `relax` without which the hits were found; nothing was found with them."""
    context: Context | None = None
    """With `context_tokens`."""
    confidence: float | None = None
    """The probability that a relevant document is among the first `offset` + `top_k` hits, 0 to 1; None if it is not known."""
    abstained: bool = False
    """Whether the confidence is below `abstain`, so that the hits should not be taken for an answer.  They are all here."""
    signals: dict[str, float] = Field(default_factory=dict)
    """With `include: explanation`, the values from which the confidence was computed: `cosine`, `agreement`, `rerank`."""
    coverage: float = 0.0
    """Share of the hits that branches of several groups found."""
    took_ms: float = 0.0
    """Milliseconds."""


class Answer(_Read):
    """The end of a request; for `status` see `chorale_client.wire_names.Status`."""

    v: int = WIRE_VERSION
    """Wire version that the service wrote."""
    request_id: str
    correlation_id: str | None = None
    namespace: str = ""
    configuration: str = ""
    """The configuration that made the answer; empty if the request ended without a fusion."""
    method: str = ""
    """The fusion method, also of reranked hits; empty like `configuration`."""
    top_k: int | None = None
    """The request's; None if the request ended without a fusion, as the next three."""
    depth: int | None = None
    """Number of documents that the request let each branch contribute."""
    rerank: str | None = None
    """`on` if a reranker reranked, or was to rerank, hits of this request, else `off`."""
    rerank_depth: int | None = None
    """How many of the best fused hits were to be reranked; None without a reranker."""
    ended_at: str = ""
    """ISO 8601, by the Redis server's clock."""
    status: str
    """The worst of the questions' statuses, or how the request ended without them."""
    degraded: tuple[Degradation, ...] = ()
    """What is missing; empty if the answer is complete."""
    stages: tuple[StageLine, ...] = ()
    warnings: tuple[str, ...] = ()
    cached: bool = False
    """Whether every question was answered from the cache."""
    took_ms: float = 0.0
    """Milliseconds from acceptance to end, by the Redis server's clock."""
    retry_after_s: float | None = None
    """For a refused request: seconds after which it is worth asking again."""
    questions: tuple[QuestionAnswer, ...] = ()
    """In the order of the request; empty if the request ended before any question was answered."""

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The hits of the first question."""
        return self.questions[0].hits if self.questions else ()

    @classmethod
    def from_wire(cls, wire: str | bytes | Mapping[str, Any]) -> Answer:
        """Read a JSON document or its decoded form; raises pydantic's ValidationError."""
        if isinstance(wire, str | bytes):
            return cls.model_validate_json(wire)
        return cls.model_validate(wire)
