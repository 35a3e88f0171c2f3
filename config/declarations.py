"""What a pipeline declares: stores, branches and named configurations, frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from chorale_client.words import QUEUE_FUSION, QUEUE_INDEX, QUEUE_RETRIEVE
from pydantic import BaseModel, ConfigDict, Field

from models.plan import BoostPlan

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Declared(BaseModel):
    """Read strictly: a field that is not known is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class StoreDeclaration(Declared):
    """A document index."""

    name: str
    kind: str
    options: dict[str, Any] = {}


class BranchDeclaration(Declared):
    """One source in the fan-out."""

    name: str
    """`[a-z][a-z0-9_]{0,31}`."""
    kind: str
    """Names the task `chorale.search.<kind>`."""
    group: str = Field(min_length=1)
    """Branches of one group share an encoder; `rrf-grouped` fuses inside it first."""
    store: str
    queue: str
    """`chorale.<name>` unless declared."""
    weight: Weight = 1.0
    depth: int = Field(1_000, ge=1, le=1_000)
    """The most documents a question gets from this branch, whatever depth a request asks for."""
    limit_s: float | None = Field(None, ge=0.01, le=60)
    """Seconds from publication after which the join no longer waits for it; None: all the request's time."""
    options: dict[str, Any] = {}


class Choices(Declared):
    """What a configuration chooses, its boosts aside."""

    name: str
    method: str
    k: float = Field(60, ge=0, le=10_000)
    """The constant of reciprocal rank fusion."""
    branches: tuple[str, ...] | None = Field(None, min_length=1, strict=False)
    """Only these; None: all."""
    weights: dict[str, Weight] | None = None
    """By branch, in place of the branch's own."""
    fold: bool = True
    """Fold exact copies and near-duplicates into the best of them."""


class Configuration(Choices):
    """A named set of ranking choices."""

    boosts: BoostPlan | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What one installation searches and how it ranks."""

    stores: Mapping[str, StoreDeclaration]
    branches: tuple[BranchDeclaration, ...]
    configurations: Mapping[str, Configuration]
    default_configuration: str

    def branches_of(self, configuration: Configuration) -> tuple[BranchDeclaration, ...]:
        """The branches that `configuration` asks, with its weights, in the order of declaration."""
        weights = configuration.weights or {}
        return tuple(
            branch.model_copy(update={"weight": weights.get(branch.name, branch.weight)})
            for branch in self.branches
            if configuration.branches is None or branch.name in configuration.branches
        )

    @property
    def queues(self) -> tuple[str, ...]:
        """Every queue that needs a worker, each once."""
        own = (branch.queue for branch in self.branches)
        return tuple(dict.fromkeys((QUEUE_RETRIEVE, *own, QUEUE_FUSION, QUEUE_INDEX)))
