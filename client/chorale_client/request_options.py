"""The options of a request as keyword arguments, for editors and type checkers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypedDict

from chorale_client.request import Include


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
    thresholds: dict[str, Any] | None
    fuse_by: Literal["document", "passage"]
    group_by: str | None
    rerank: Literal["on", "off"] | None
    diversity: float | None
    snippet_chars: int
    include: Sequence[Include]
    context_tokens: int | None
    configuration: str | None
    needs_retrieval: bool
    require: Sequence[str]
    min_branches: int
    on_missing: Literal["degrade", "fail", "empty"]
    hedge: bool
    timeout_s: float
    cache: Literal["use", "refresh", "bypass"]
    now: str | None
