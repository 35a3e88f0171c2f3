"""The plan of a request: every value resolved once, so that no worker mixes in a configuration of its own."""

from __future__ import annotations

from typing import Any

from chorale_client.words import WIRE_VERSION
from pydantic import BaseModel, ConfigDict


class _Resolved(BaseModel):
    # Read tolerantly: a plan written by the next version is fused by this one while a deploy rolls.
    model_config = ConfigDict(frozen=True, extra="ignore")


class BranchPlan(_Resolved):
    """One part of the fan-out."""

    name: str
    kind: str
    """`bm25`, `vector`, `hyde`: names the task `chorale.search.<kind>`."""
    group: str
    """Branches of one group share an encoder; `rrf-grouped` fuses inside it first."""
    store: str
    queue: str
    weight: float
    depth: int
    """Documents for each question."""
    limit_ms: int
    """From publication; never beyond `join_at`."""
    options: dict[str, Any] = {}
    """As declared, of kinds that read them from here."""
    is_decisive: bool = False
    """With `on_missing: fail`: once it failed, nobody waits for the others."""
    hedge_after_ms: int | None = None
    """From publication: still without an answer then, it is sent once more; None: never."""


class BoostPlan(_Resolved):
    """Authority and recency, resolved (ranking.md: `1 + a * 2^(-age/half_life)`)."""

    authority: dict[str, float] = {}
    """Factor by source type."""
    recency_amount: float = 0.0
    recency_half_life_days: float = 365.0
    recency_step: bool = False
    """True: the whole amount up to the half-life and nothing after it, instead of the decay."""
    max_places: int | None = 5
    """How many places a boost may lift a hit; None: no bound."""


class RerankPlan(_Resolved):
    """Which fused hits a cross-encoder looks at, and what its scores count."""

    name: str
    """As declared: names the model that the fusion workers have loaded."""
    depth: int
    """Candidates of a question."""
    coarse: int
    """Fused hits over which scores are normalised; no hit from below them comes onto a page before them."""
    budget_ms: int
    weight: float
    """Share of the reranked score; the fused one has the rest."""


class Plan(_Resolved):
    """Written once, together with the publication of the chord."""

    v: int = WIRE_VERSION
    configuration: str
    namespace: str
    branches: tuple[BranchPlan, ...]
    method: str
    """A name in `fusion.METHODS`."""
    k: float
    boosts: BoostPlan | None = None
    fold: bool = True
    rerank: RerankPlan | None = None
    """None: the fused order stands, by declaration or since the request says so."""
    generation: int | None
    """The corpus generation when the plan was made."""
    models: dict[str, str] = {}
    """Fingerprint by what the model is for: `embedder`, `reranker`."""
    asked: tuple[int, ...]
    """Indices of the request's questions that the branches search: the misses of the cache."""
    cached: dict[int, dict[str, Any]] = {}
    """Answers of single questions that the cache knew, by index."""
    now: str
    """ISO 8601; what recency counts from."""
    degraded: tuple[dict[str, str], ...] = ()
    """What is already known to be missing: `{where, reason, detail}`."""
    stages: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    cacheable: bool = True
    """False for `bypass`, or where the cache could not be asked."""
    finish_reserve_ms: int
    fusion_reserve_ms: int
