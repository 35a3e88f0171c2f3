"""The options of a request as keyword arguments, for editors and type checkers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Required, TypedDict

from chorale_client.request import Include


class ThresholdOptions(TypedDict, total=False):
    """The fields of `Thresholds`, which describes them."""

    min_branch_score: dict[str, float]
    min_fused_score: float | None
    min_rerank_score: float | None


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
    boosts: Literal["off"] | None
    thresholds: ThresholdOptions | None
    relax: Sequence[str]
    fuse_by: Literal["document", "passage"]
    group_by: str | GroupingOptions | None
    rerank: Literal["on", "off"] | None
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
