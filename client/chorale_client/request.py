"""A request as its caller submits it."""

from __future__ import annotations

import re
import unicodedata
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from chorale_client.boosts import Boosts
from chorale_client.callbacks import Headers, Linked, check_callback_task
from chorale_client.errors import safe_repr
from chorale_client.filters import check_filters
from chorale_client.limits import (
    MAX_BRANCHES,
    MAX_CANDIDATES,
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_EXCLUDED,
    MAX_ID_CHARS,
    MAX_NAME_CHARS,
    MAX_QUESTIONS,
    MAX_REWRITES,
    MAX_TAGS,
    MAX_TEXT_CHARS,
)
from chorale_client.tracing import check_traceparent
from chorale_client.wire_names import WIRE_VERSION
from chorale_client.written_request import WrittenRequest, write_request

_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def check_namespace(value: str) -> str:
    if not _NAMESPACE.fullmatch(value):
        raise ValueError(
            "a namespace is 1-63 lower-case letters, digits, '_' or '-', and starts with a letter or digit "
            f"([a-z0-9][a-z0-9_-]{{0,62}}); not {safe_repr(value)}"
        )
    return value


def check_identifier(value: str) -> str:
    if not _IDENTIFIER.fullmatch(value):
        raise ValueError(
            "an id is 1-128 letters, digits, '.', '_' or '-', and starts with a letter or digit; "
            f"not {safe_repr(value)}"
        )
    return value


def _whole_characters(value: Any) -> Any:
    """Replace lone surrogates, which no encoding can represent, by U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


Namespace = Annotated[str, AfterValidator(check_namespace)]
Identifier = Annotated[str, AfterValidator(check_identifier)]
Text = Annotated[str, Field(max_length=MAX_TEXT_CHARS), BeforeValidator(_whole_characters)]
Label = Annotated[str, Field(max_length=MAX_NAME_CHARS), BeforeValidator(_whole_characters)]
Name = Annotated[str, Field(max_length=MAX_NAME_CHARS)]
"""Refused with lone surrogates: a name that was changed would be another's."""
Names = Annotated[tuple[Name, ...], Field(fail_fast=True)]

Include = Literal["ids", "metadata", "snippets", "texts", "explanation", "context"]


def _check_around(value: Any) -> Any:
    if value != "document" and (type(value) is not int or not 0 <= value <= 20):
        raise ValueError("takes a number from 0 to 20, or 'document'")
    return value


Around = Annotated[Annotated[int, Field(ge=0, le=20)] | Literal["document"], BeforeValidator(_check_around)]
Weight = Annotated[float, Field(ge=0, le=1_000, allow_inf_nan=False, strict=False)]
Score = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Variant(_Wire):
    """A rewrite of the question for some of the branches."""

    kind: Literal["keyword", "semantic", "entity"]
    """`keyword` goes to BM25, `semantic` to the dense branches, `entity` to BM25."""
    text: Text
    replace: bool = False
    """Search with this rewrite instead of the question's text; otherwise with both."""


_EXPANSION_KINDS = {"bm25_query": "keyword", "vector_query": "semantic", "entity_query": "entity"}


class Question(_Wire):
    """One question: a text of up to 8,192 characters, and rewrites that the caller already has."""

    text: Annotated[
        Text, BeforeValidator(lambda text: "" if text is None else text, json_schema_input_type=Text | None)
    ]
    """One without a text, or with null, is skipped."""
    variants: tuple[Variant, ...] = Field((), max_length=MAX_REWRITES, strict=False)
    hypothetical_documents: tuple[Text, ...] = Field((), max_length=MAX_REWRITES, strict=False)
    """Passages that could answer the question (HyDE, Gao et al. 2022); the `hyde` branch embeds these."""

    @model_validator(mode="before")
    @classmethod
    def _plain_shapes(cls, value: Any) -> Any:
        """Accept a string as a question, the plain dict of a query-expansion step, and null as a question without a text."""
        if value is None or isinstance(value, str):
            return {"text": value or ""}
        if isinstance(value, Mapping) and ({*_EXPANSION_KINDS, "hypothetical_document"} & value.keys()):
            plain = dict(value)
            lists = [plain.pop(name, ()) for name in ("variants", "hypothetical_documents")]
            if not all(isinstance(values, list | tuple) for values in lists):
                return value  # the validation of its fields reports the error
            variants, documents = map(list, lists)
            for name, kind in _EXPANSION_KINDS.items():
                if text := plain.pop(name, None):
                    variants.append({"kind": kind, "text": text})
            if document := plain.pop("hypothetical_document", None):
                documents.append(document)
            return {**plain, "variants": variants, "hypothetical_documents": documents}
        return value


class Thresholds(_Wire):
    """The lowest scores that a hit may have.  The answer says how many hits were below (`removed`)."""

    min_branch_score: dict[Name, Score] = Field(default_factory=dict, max_length=MAX_BRANCHES)
    """By branch, on the branch's own scale; a hit below counts as not found by the branch."""
    min_fused_score: Share | None = None
    """Share, 0-1, of the score that a document has, before boosts, if every branch with an answer puts it first."""
    min_rerank_score: Share | None = None
    """Of the reranker's score, 0-1; also removes hits that the reranker did not reach, unless it reached none."""


class Grouping(_Wire):
    """At most `size` hits of each group; the next candidates take the places of the others."""

    field: Name
    """`document`, for passages (`fuse_by`), or the name of a metadata field."""
    size: int = Field(1, ge=1, le=100)


def _as_boosts(value: Any) -> Any:
    """An object is checked by itself: the faults of a union would not be those of a field that a caller knows."""
    if value is None or value == "off":
        return value
    if not isinstance(value, (Mapping, Boosts)):
        raise ValueError("takes an object, or 'off'")
    return Boosts.model_validate(value)


def _as_grouping(value: Any) -> Any:
    return {"field": value} if isinstance(value, str) else value


RELAXABLE_FILTER, _RELAXABLE_THRESHOLD = "filters.", "thresholds."
Relaxable = Annotated[str, Field(max_length=MAX_NAME_CHARS + len(_RELAXABLE_THRESHOLD))]


def _check_relaxable(names: Sequence[str], filters: Mapping[str, Any], thresholds: Thresholds | None) -> None:
    """Raises ValueError for a name that is no condition of the request."""
    conditions = [f"{RELAXABLE_FILTER}{field}" for field in filters]
    conditions += [
        f"{_RELAXABLE_THRESHOLD}{name}"
        for name, value in (thresholds or Thresholds()).model_dump().items()
        if value not in (None, {})
    ]
    for name in names:
        if name not in conditions:
            allowed = f"there are: {', '.join(map(safe_repr, conditions))}" if conditions else "it has none"
            raise ValueError(f"relax: no condition {safe_repr(name)} in this request; {allowed}"[:500])


def _check_now(value: str) -> str:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"not an ISO 8601 moment: {safe_repr(value)}") from None
    return value


class Request(_Wire):
    """A namespace and 1-64 questions that share all options; one question is a list of one.

    Times are seconds, dates ISO 8601.
    """

    v: Literal[1] = WIRE_VERSION
    """Version of the wire format."""
    request_id: Identifier = Field(default_factory=lambda: str(uuid.uuid4()))
    """Also the id of the Celery task `chorale.fuse`, so `AsyncResult(request_id)` is the answer.

    While the request is in flight, and for `CHORALE_ANSWER_TTL_S` (600) seconds after its end, an equal request with
    this id gets the state or the answer of the first; a different one raises RequestIdConflict.  A refused request may
    be sent again with its id."""
    correlation_id: Label | None = None
    """The caller's own id; every log line and audit row of the request has it."""
    tags: dict[Name, Label] = Field(default_factory=dict, max_length=MAX_TAGS)
    """Kept with the audit rows."""
    namespace: Namespace = "default"
    """Which documents: `[a-z0-9][a-z0-9_-]{0,62}`."""
    questions: Annotated[
        tuple[Question, ...],
        BeforeValidator(
            lambda value: (value,) if value is None else value,
            json_schema_input_type=Annotated[
                list[Question | Text | None], Field(min_length=1, max_length=MAX_QUESTIONS)
            ]
            | None,
        ),
    ] = Field(min_length=1, max_length=MAX_QUESTIONS, strict=False)
    """1-64 questions, each an object, a text or null; null has no text, and is skipped."""
    top_k: int = Field(5, ge=1, le=1_000)
    """Number of hits for each question, counted in documents."""
    offset: int = Field(0, ge=0, le=1_000)
    """Number of best hits to skip (paging)."""
    depth: int = Field(200, ge=1, le=MAX_DEPTH)
    """Number of documents that each branch contributes; at least `top_k`.  Pages of equal depth are of one ranking."""
    branches: Names | None = Field(None, min_length=1, max_length=MAX_BRANCHES, strict=False)
    """Only these branches of the configuration; all by default."""
    weights: dict[Name, Weight] | None = Field(None, max_length=MAX_BRANCHES)
    """Weight by branch name, instead of the configuration's; at least one branch of the request must have more than
    0."""
    fusion: Name | None = None
    """Name of a fusion method, instead of the configuration's."""
    filters: Annotated[dict[str, Any], AfterValidator(check_filters)] = Field(default_factory=dict)
    """`{field: value | [values] | {gt, gte, lt, lte, exists, not, contains, all}}`; all must hold.  Values are texts,
    finite numbers, true and false, which are compared by their meaning: `"2026"` also matches the number 2026.  An empty list is
    no condition.  `exists` takes true or false, `all` a list of conditions."""
    exclude_ids: Annotated[
        tuple[Annotated[str, Field(max_length=MAX_ID_CHARS)], ...], Field(fail_fast=True)
    ] = Field((), max_length=MAX_EXCLUDED, strict=False)
    """Ids of documents to leave out, as they were handed in or as hits show them."""
    boosts: Annotated[Literal["off"] | Boosts | None, BeforeValidator(_as_boosts)] = None
    """Authority and recency instead of the configuration's; `off`: without either."""
    thresholds: Thresholds | None = None
    """The lowest scores of hits; what is below is removed."""
    relax: Annotated[tuple[Relaxable, ...], Field(fail_fast=True)] = Field(
        (), max_length=MAX_CONDITIONS, strict=False
    )
    """Conditions of this request that a question may lose if it finds nothing with them: `filters.<field>` and
    `thresholds.<name>`.  Filters are dropped first, each in this order, until a branch finds something.  The answer names what
    was dropped (`relaxed`).  The filters of a key are never dropped."""
    fuse_by: Literal["document", "passage"] = "document"
    """What is ranked: documents with their best passage, or passages."""
    group_by: Annotated[
        Grouping | None, BeforeValidator(_as_grouping, json_schema_input_type=Name | Grouping | None)
    ] = None
    """At most one hit of each document (`document`, with `fuse_by: passage`) or value of a metadata field, or `{field, size}`
    for more.  A document without the field is in no group, and stays."""
    rerank: Literal["on", "off"] | None = None
    """`off`: keep the fused order; `on`: fail if the configuration declares no reranker.  By default a declared reranker
    reranks."""
    rerank_depth: int | None = Field(None, ge=1, le=1_000)
    """How many of the best fused hits of a question are reranked, instead of the reranker's own `depth`."""
    autocut: int | None = Field(None, ge=1, le=100)
    """Cuts the `offset + top_k` best hits before the end of this jump in scores: 1 leaves the hits before the first jump."""
    diversity: Share | None = None
    """Orders the best 50 hits by maximal marginal relevance with lambda = 1 - `diversity`: 0 keeps the order, .3 is usual."""
    abstain: Share | None = None
    """The lowest confidence of an answer.  A question below it is `abstained`; its hits stay.  One whose confidence is not
    known is not `abstained`, and a warning says why."""
    snippet_chars: int = Field(440, ge=40, le=2_000)
    """Length of a snippet in characters."""
    include: Annotated[tuple[Include, ...], Field(fail_fast=True)] = Field(
        ("ids", "metadata", "snippets"), max_length=16, strict=False
    )
    """The parts of each hit.  An answer over CHORALE_ANSWER_LIMIT_MB (16 MB) has ids and scores only, and is degraded with
    `{fetch, budget}`."""
    context_tokens: int | None = Field(None, ge=1, le=1_000_000)
    """Packs the passages of the hits into a text for a language model, of at most this many tokens (`context`).  Tokens
    are counted by `CHORALE_CONTEXT_TOKENIZER`, by default the embedder's tokenizer."""
    context_around: Around = 0
    """Adds to the context the passages around those of the hits, while there is room: so many before and after each, at most
    20, or with `document` the whole documents that fit."""
    configuration: Name | None = None
    """Name of a configuration of the pipeline; its default configuration by default."""
    needs_retrieval: bool = True
    """False: the request ends immediately as `skipped`, without hits."""
    require: Names = Field((), max_length=MAX_BRANCHES, strict=False)
    """The request fails without an answer of each of these branches."""
    min_branches: int = Field(1, ge=0, le=MAX_BRANCHES)
    """The request fails if fewer branches answer; at most the number of branches of the request."""
    on_missing: Literal["degrade", "fail", "empty"] = "degrade"
    """The effect of a missing branch on the answer."""
    hedge: bool = False
    """Send a branch a second time if it has not answered within its own p95; the first answer wins."""
    timeout_s: float = Field(2.0, ge=0.05, le=60, allow_inf_nan=False, strict=False)
    """The request ends within this time by the Redis server's clock.  By default the configuration's own time limit, if it
    declares one; configurations with a language model do."""
    cache: Literal["use", "refresh", "bypass"] = "use"
    """`refresh`: compute and store; `bypass`: neither read nor store."""
    now: Annotated[str, AfterValidator(_check_now)] | None = None
    """The moment from which recency counts, ISO 8601; the time of acceptance by default."""
    on_end: Annotated[dict[str, str], AfterValidator(check_callback_task)] | None = None
    """`{"task": name, "queue": name}`: a Celery task of the caller's, which gets `request_id` and `status` when the request
    has ended, at least once.  The queue must be one of `CHORALE_ON_END_QUEUES`."""
    traceparent: Annotated[str, AfterValidator(check_traceparent)] | None = None
    """The caller's span (W3C Trace Context), under which the request's spans stand.  By default the client's current span, if
    the program uses OpenTelemetry."""
    linked: tuple[Linked, ...] = Field((), max_length=64, strict=False)
    """Written by `chorale.retrieve`, from `link`, `link_error` and the rest of a chain in Celery's message."""
    headers: Headers = Field(default_factory=dict)
    """Written by `chorale.retrieve`: the headers of the caller's own in Celery's message, for the tasks that follow."""

    @model_validator(mode="after")
    def _bounded(self) -> Request:
        candidates = len(self.questions) * self.effective_depth
        if candidates > MAX_CANDIDATES:
            raise ValueError(
                f"depth: {len(self.questions)} questions x an effective depth of {self.effective_depth} is "
                f"{candidates:,} candidates; at most {MAX_CANDIDATES:,} are allowed"
            )
        if "context" in self.include and self.context_tokens is None:
            raise ValueError("include: 'context' needs context_tokens, 1 to 1,000,000")
        if self.context_around and self.context_tokens is None:
            raise ValueError("context_around: needs context_tokens, 1 to 1,000,000")
        _check_relaxable(self.relax, self.filters, self.thresholds)
        if self.autocut and self.diversity:
            raise ValueError("autocut: needs hits ordered by score, and diversity orders them otherwise")
        return self

    @cached_property
    def written(self) -> WrittenRequest:
        """Raises InvalidRequest for a request that holds what JSON cannot."""
        return write_request(self, has_headers=bool(self.headers))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("written", None)
        return copied

    @property
    def excluded_ids(self) -> tuple[str, ...]:
        """`exclude_ids` as they were sent, which an endpoint may know, and as Chorale's stores keep ids."""
        kept = (unicodedata.normalize("NFC", name.strip()) for name in self.exclude_ids)
        return tuple(dict.fromkeys((*self.exclude_ids, *kept)))

    @property
    def effective_depth(self) -> int:
        """The number of documents that each branch searches for: max(depth, top_k), on every page."""
        return max(self.depth, self.top_k)
