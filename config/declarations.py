"""What a pipeline declares: stores, branches and named configurations, frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from chorale_client.words import QUEUE_FUSION, QUEUE_INDEX, QUEUE_RETRIEVE
from pydantic import Field, model_validator

from models.declared import Declared
from models.extensions import Kinds
from models.plan import BoostPlan

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class StoreDeclaration(Declared):
    """A document index."""

    name: str
    kind: str
    options: dict[str, Any] = Field(default_factory=dict)


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
    options: dict[str, Any] = Field(default_factory=dict)


class RerankerDeclaration(Declared):
    """A cross-encoder that orders the best fused hits anew, in the fusion workers."""

    name: str
    model: str = Field(min_length=1)
    """A sentence-transformers CrossEncoder: a name on the Hugging Face hub, or a folder."""
    backend: Literal["onnx", "sentence_transformers"] = "onnx"
    """`onnx`: the BERT family, without PyTorch; `sentence_transformers`: any (needs `make torch`)."""
    device: str | None = Field(None, pattern=r"^(cpu|mps|cuda(:\d{1,2})?)$")
    """`cpu`, `cuda`, `cuda:1`, `mps`; None: CUDA where the backend has it and there is one."""
    depth: int = Field(50, ge=1, le=1_000)
    """How many of the best fused hits of a question it scores; fewer where the measured speed allows no more."""
    coarse: int = Field(100, ge=1, le=1_000)
    """Over so many of them the fused scores are normalised."""
    budget_ms: int = Field(400, ge=10, le=30_000)
    """Milliseconds it may take of a request, which the branches then do not have: 400 are a fifth of the usual 2 s."""
    weight: float = Field(0.7, gt=0, le=1, strict=False)
    """Its share of the score; the fused score has the rest."""
    max_pieces: int = Field(128, ge=16, le=8_192)
    """Word pieces of question and passage together; of pairs that long a MiniLM scores 21 in 400 ms on one core."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.coarse < self.depth:
            raise ValueError(f"coarse: {self.coarse} hits hold no {self.depth} candidates; at least depth")
        if self.backend == "onnx" and self.device not in (None, "cpu"):
            raise ValueError(f"device: the backend onnx runs on the cpu alone, not on {self.device}")
        return self


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
    timeout_s: float | None = Field(None, ge=0.05, le=60)
    """The time of a request that chooses this and gives none itself; None: 2 s.  For language models, mostly."""


class Configuration(Choices):
    """A named set of ranking choices."""

    boosts: BoostPlan | None = None
    reranker: RerankerDeclaration | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What one installation searches and how it ranks."""

    stores: Mapping[str, StoreDeclaration]
    branches: tuple[BranchDeclaration, ...]
    configurations: Mapping[str, Configuration]
    default_configuration: str
    kinds: Kinds
    """The built-in kinds and methods, and those of packages that the declaration names."""

    def branches_of(self, configuration: Configuration) -> tuple[BranchDeclaration, ...]:
        """The branches that `configuration` asks, with its weights, in the order of declaration."""
        weights = configuration.weights or {}
        return tuple(
            branch.model_copy(update={"weight": weights.get(branch.name, branch.weight)})
            for branch in self.branches
            if configuration.branches is None or branch.name in configuration.branches
        )

    @property
    def timeouts_s(self) -> dict[str, float]:
        """By configuration, where it has a time of its own; `""` is that of the default one."""
        named = {name: one.timeout_s for name, one in self.configurations.items() if one.timeout_s}
        default = named.get(self.default_configuration)
        return named if default is None else {**named, "": default}

    @property
    def rerankers(self) -> dict[str, RerankerDeclaration]:
        """Those that a configuration uses, by name."""
        used = (one.reranker for one in self.configurations.values())
        return {reranker.name: reranker for reranker in used if reranker is not None}

    @property
    def capabilities(self) -> tuple[str, ...]:
        """What may be done with each store: `<store>:read`, `<store>:write`, in the order of declaration."""
        return tuple(
            f"{name}:{right}"
            for name, store in self.stores.items()
            for right in (("read", "write") if self.kinds.stores[store.kind].writes else ("read",))
        )

    @property
    def queues(self) -> tuple[str, ...]:
        """Every queue that needs a worker, each once."""
        own = (branch.queue for branch in self.branches)
        return tuple(dict.fromkeys((QUEUE_RETRIEVE, *own, QUEUE_FUSION, QUEUE_INDEX)))
