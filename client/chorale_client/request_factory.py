"""A request from keyword arguments, checked before anything is sent, and as JSON within its limit of size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Required, TypedDict, Unpack

from pydantic import ValidationError

from chorale_client.documents import document_bytes
from chorale_client.errors import InvalidRequest, display_name
from chorale_client.limits import MAX_REQUEST_BYTES
from chorale_client.request import Include, Question, Request
from chorale_client.tracing import current_traceparent


class ThresholdOptions(TypedDict, total=False):
    """The fields of `Thresholds`, which describes them."""

    min_branch_score: dict[str, float]
    min_fused_score: float | None
    min_rerank_score: float | None


class BoostOptions(TypedDict, total=False):
    """The fields of `Boosts`, which describes them."""

    authority: dict[str, float]
    recency_amount: float
    recency_half_life_days: float
    recency_step: bool
    max_places: int | None


class GroupingOptions(TypedDict, total=False):
    """The fields of `Grouping`, which describes them."""

    field: Required[str]
    size: int


class RequestOptions(TypedDict, total=False):
    """The fields of `Request`, which describes them, except `questions` and `v`."""

    request_id: str
    correlation_id: str | None
    tags: dict[str, str]
    namespace: str
    top_k: int
    offset: int
    depth: int
    branches: Sequence[str] | None
    weights: dict[str, float] | None
    fusion: str | None
    filters: dict[str, Any]
    exclude_ids: Sequence[str]
    boosts: Literal["off"] | BoostOptions | None
    thresholds: ThresholdOptions | None
    relax: Sequence[str]
    fuse_by: Literal["document", "passage"]
    group_by: str | GroupingOptions | None
    rerank: Literal["on", "off"] | None
    rerank_depth: int | None
    autocut: int | None
    diversity: float | None
    abstain: float | None
    snippet_chars: int
    include: Sequence[Include]
    context_tokens: int | None
    context_around: int | Literal["document"]
    configuration: str | None
    needs_retrieval: bool
    require: Sequence[str]
    min_branches: int
    on_missing: Literal["degrade", "fail", "empty"]
    hedge: bool
    timeout_s: float
    cache: Literal["use", "refresh", "bypass"]
    now: str | None
    on_end: dict[str, str] | None
    traceparent: str | None


def request_json(request: Request) -> str:
    """Raises InvalidRequest for a request that is too large, or holds what JSON cannot."""
    text = request.written.text
    # A character takes up to four bytes.
    if len(text) > MAX_REQUEST_BYTES // 4:
        check_size(len(text.encode()), request.model_dump)
    return text


def check_fields(fields: Mapping[str, Any]) -> None:
    """Raises InvalidRequest for the fields of a request that are too large, or cannot be JSON, before they are read."""
    try:
        size = document_bytes(fields)
    except (RecursionError, TypeError, ValueError) as error:
        raise InvalidRequest(f"request: not JSON: {str(error)[:200]}") from None
    check_size(size, lambda: fields)


def check_size(size: int, fields: Callable[[], Mapping[str, Any]] = dict) -> None:
    """Raises InvalidRequest, which names the largest of the `fields`, for a request of too many bytes."""
    if size <= MAX_REQUEST_BYTES:
        return
    sizes = {name: document_bytes(value) for name, value in fields().items()}
    largest = max(sizes, key=sizes.__getitem__, default="request")
    raise InvalidRequest(
        f"{display_name(largest)}: the request has {size:,} bytes as JSON{', most of them here' if sizes else ''}; "
        f"at most {MAX_REQUEST_BYTES:,} are allowed"
    )


Questions = str | Question | Mapping[str, Any] | Sequence[str | Question | Mapping[str, Any] | None] | None


def make_request(questions: Questions, **options: Unpack[RequestOptions]) -> Request:
    """A checked request from one question or several; an option that is None has its default.  Raises InvalidRequest, which
    names the field."""
    items = questions if isinstance(questions, Sequence) and not isinstance(questions, str) else [questions]
    try:
        options.setdefault("traceparent", current_traceparent())
        fields = {name: value for name, value in options.items() if value is not None}
        request = Request.model_validate({"questions": items, **fields})
    except ValidationError as error:
        raise InvalidRequest.from_validation(error) from None
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    request_json(request)
    return request
