"""A request as its caller submits it.  Options whose work is not done yet have their names already."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from chorale_client.filters import check_filters
from chorale_client.words import WIRE_VERSION

MAX_TEXT_CHARS = 8_192
MAX_QUESTIONS = 64
MAX_CANDIDATES = 20_000

_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def check_namespace(value: str) -> str:
    if not _NAMESPACE.fullmatch(value):
        raise ValueError(
            "a namespace is 1-63 lower-case letters, digits, '_' or '-', and starts with a letter or digit "
            f"([a-z0-9][a-z0-9_-]{{0,62}}); not {value[:80]!r}"
        )
    return value


def check_identifier(value: str) -> str:
    if not _IDENTIFIER.fullmatch(value):
        raise ValueError(
            "an id is 1-128 letters, digits, '.', '_' or '-', and starts with a letter or digit; "
            f"not {value[:80]!r}"
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
Label = Annotated[str, Field(max_length=256), BeforeValidator(_whole_characters)]

Include = Literal["ids", "metadata", "snippets", "texts", "explanation", "context"]


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

    text: Text
    variants: tuple[Variant, ...] = Field((), max_length=8, strict=False)
    hypothetical_documents: tuple[Text, ...] = Field((), max_length=8, strict=False)
    """Passages that could answer the question (HyDE, Gao et al. 2022); the `hyde` branch embeds these."""

    @model_validator(mode="before")
    @classmethod
    def _plain_shapes(cls, value: Any) -> Any:
        """Accept a string as a question, and the plain dict of a query-expansion step."""
        if isinstance(value, str):
            return {"text": value}
        if isinstance(value, Mapping) and ({*_EXPANSION_KINDS, "hypothetical_document"} & value.keys()):
            plain = dict(value)
            lists = [plain.pop(name, ()) for name in ("variants", "hypothetical_documents")]
            if not all(isinstance(one, list | tuple) for one in lists):
                return value  # the validation of its fields reports the error
            variants, documents = map(list, lists)
            for name, kind in _EXPANSION_KINDS.items():
                if text := plain.pop(name, None):
                    variants.append({"kind": kind, "text": text})
            if document := plain.pop("hypothetical_document", None):
                documents.append(document)
            return {**plain, "variants": variants, "hypothetical_documents": documents}
        return value


def _check_now(value: str) -> str:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"not an ISO 8601 moment: {value[:40]!r}") from None
    return value


class Request(_Wire):
    """A namespace and 1-64 questions that share all options; one question is a list of one.

    Times are seconds, dates ISO 8601.  Options that this version does not support are refused by name.
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
    tags: dict[str, Label] = Field(default_factory=dict, max_length=16)
    """Kept with the audit rows."""
    namespace: Namespace = "default"
    """Which documents: `[a-z0-9][a-z0-9_-]{0,62}`."""
    questions: tuple[Question, ...] = Field(min_length=1, max_length=MAX_QUESTIONS, strict=False)
    """1-64 questions."""
    top_k: int = Field(5, ge=1, le=1_000)
    """Number of hits for each question, counted in documents."""
    offset: int = Field(0, ge=0, le=1_000)
    """Number of best hits to skip (paging)."""
    depth: int = Field(100, ge=1, le=1_000)
    """Number of documents that each branch contributes; at least 2 x (offset + top_k)."""
    branches: tuple[str, ...] | None = Field(None, min_length=1, strict=False)
    """Only these branches of the configuration; all by default."""
    weights: dict[str, Annotated[float, Field(ge=0, le=1_000, allow_inf_nan=False, strict=False)]] | None = (
        None
    )
    """Weight by branch name, instead of the configuration's; at least one of the branches asked must have more than 0."""
    fusion: str | None = None
    """Name of a fusion method, instead of the configuration's."""
    filters: Annotated[dict[str, Any], AfterValidator(check_filters)] = Field(default_factory=dict)
    """`{field: value | [values] | {gt, gte, lt, lte, exists, not, contains}}`; all must hold.  Values are texts, finite
    numbers, true and false; `exists` takes true or false."""
    exclude_ids: tuple[str, ...] = Field((), max_length=1_000, strict=False)
    """Ids of documents to leave out."""
    boosts: Literal["off"] | None = None
    """`off`: without the configuration's authority and recency."""
    thresholds: dict[str, Any] | None = None
    """`min_branch_score`, `min_fused_score`, `min_rerank_score`."""
    fuse_by: Literal["document", "passage"] = "document"
    """What is ranked: documents with their best passage, or passages."""
    group_by: str | None = None
    rerank: Literal["on", "off"] | None = None
    """`off`: keep the fused order; `on`: fail if the configuration declares no reranker.  By default a declared reranker
    reranks."""
    diversity: float | None = Field(None, ge=0, le=1)
    snippet_chars: int = Field(240, ge=40, le=2_000)
    """Length of a snippet in characters."""
    include: tuple[Include, ...] = Field(("ids", "metadata", "snippets"), strict=False)
    """The parts of each hit.  An answer over CHORALE_ANSWER_LIMIT_MB (16 MB) has ids and scores only, and is degraded with
    `{fetch, budget}`."""
    context_tokens: int | None = Field(None, ge=1)
    configuration: str | None = None
    """Name of a configuration of the pipeline; its default configuration by default."""
    needs_retrieval: bool = True
    """False: the request ends immediately as `skipped`, without hits."""
    require: tuple[str, ...] = Field((), strict=False)
    """The request fails without an answer of each of these branches."""
    min_branches: int = Field(1, ge=0)
    """The request fails if fewer branches answer; at most the number of branches asked."""
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

    @model_validator(mode="after")
    def _bounded(self) -> Request:
        candidates = len(self.questions) * self.effective_depth
        if candidates > MAX_CANDIDATES:
            raise ValueError(
                f"depth: {len(self.questions)} questions x an effective depth of {self.effective_depth} is "
                f"{candidates:,} candidates; at most {MAX_CANDIDATES:,} are allowed"
            )
        return self

    @property
    def effective_depth(self) -> int:
        """Documents asked of each branch: min(1,000, max(depth, 2 x (offset + top_k)))."""
        return min(1_000, max(self.depth, 2 * (self.offset + self.top_k)))


NOT_YET: dict[str, str] = {
    "thresholds": "thresholds",
    "group_by": "grouping",
    "diversity": "diversity (MMR)",
    "context_tokens": "context assembly",
}
"""Options of the wire format that this version does not support and refuses by name."""


def refuse_unfinished(request: Request) -> None:
    """Raise ValueError, which names the option, if the request uses an option that this version does not support."""
    for field, work in NOT_YET.items():
        if getattr(request, field) != type(request).model_fields[field].get_default():
            raise ValueError(f"{field}: {work} is not available in this version; leave it out")
    if "context" in request.include:
        raise ValueError("include: 'context' is not available in this version")
