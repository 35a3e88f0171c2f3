"""What a pipeline declares: stores, branches and named configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from chorale_client.boosts import Boosts
from chorale_client.errors import safe_repr
from chorale_client.wire_names import QUEUE_BULK, QUEUE_FUSION, QUEUE_INDEX, QUEUE_RETRIEVE
from pydantic import Field

from config.model_declarations import DeclaredEncoder, RerankerDeclaration
from models.boost_plan import BoostPlan
from models.declarations import cypher, write_words
from models.declarations.extensions import Declared, Kinds, Need
from models.errors import WrongDeclaration

if TYPE_CHECKING:
    from models.plan import BranchPlan

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
QuestionType = Literal["identifier", "keyword", "sentence", "long"]
"""`fusion.question_terms` tells them apart."""


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
    """Branches of one group share an encoder; `rrf-grouped` fuses inside each group first."""
    store: str
    encoder: str | None = None
    """Of a branch that embeds: one of the namespace's encoders; None: the first one."""
    queue: str
    """`chorale.<name>` unless declared."""
    weight: Weight = 1.0
    depth: int = Field(1_000, ge=1, le=1_000)
    """Maximum documents a question from this branch, whatever depth a request asks for."""
    limit_s: float | None = Field(None, ge=0.01, le=60)
    """Seconds from publication after which the join stops waiting for the branch; None: the request's whole time."""
    scores: Literal["bm25", "rank"] | None = None
    """What its scores are where its kind does not say it, for the method `late-fusion`: `bm25`, or none (`rank`)."""
    options: dict[str, Any] = Field(default_factory=dict)


Share = Annotated[float, Field(ge=0, le=1)]


class Adaptation(Declared):
    """How the weights of a configuration follow the grades of users and judges, in each namespace for itself."""

    bounds: dict[str, Annotated[tuple[Share, Share], Field(strict=False)]] = Field(min_length=2)
    """By branch, the least and the greatest share of all weight; a branch without bounds keeps its share."""
    every_h: float = Field(24, gt=0, le=10_000)
    """Hours between two checks of the grades of a namespace."""
    min_new_grades: int = Field(20, ge=1, le=1_000_000)
    """Grades and thumbs of people that must have come since the weights were last chosen."""
    mode: Literal["propose", "take"] = "propose"
    """`propose`: the weights become those of the configuration `<name>-proposed`; `take`: those of this configuration."""

    def outside(self, shares: Mapping[str, float]) -> list[str]:
        """What is wrong with these shares; nothing if each is within its bounds, or less than a thousandth beyond."""
        return [
            f"{name} has {shares[name]:g} of all weight, and its bounds are {low:g} and {high:g}"
            for name, (low, high) in self.bounds.items()
            if name in shares and not low - 0.001 < shares[name] < high + 0.001
        ]


def proposed_name(configuration: str) -> str:
    """The configuration that has the weights which are proposed for this one."""
    return f"{configuration}-proposed"


class Choices(Declared):
    """What a configuration chooses, without boosts and reranker."""

    name: str
    method: str
    k: float = Field(60, ge=0, le=10_000)
    """The constant of reciprocal rank fusion."""
    branches: tuple[str, ...] | None = Field(None, min_length=1, strict=False)
    """The branches to ask; None: all."""
    weights: dict[str, Weight] | None = None
    """Weights by branch; they replace the branches' own weights."""
    weights_by_type: dict[QuestionType, dict[str, Weight]] | None = None
    """Weights by branch for each type of question that they suit better than `weights`; a request's weights count first."""
    rank_window_size: int | None = Field(None, ge=1, le=1_000)
    """Fuse at most this many documents of each branch, as Elasticsearch's option of this name; None: as many as the request asks."""
    halves: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] | None = None
    """By branch, the score that the method `bounded` gives .5; best the median of the best scores of a namespace."""
    complete_scores: bool = False
    """Let each branch also score what only other branches found; for methods that use scores."""
    trust_vectors: bool = False
    """Keep the weights of dense branches also where the encoder knows few of a namespace's words."""
    fold: bool = True
    """Fold exact copies and near-duplicates into the best one."""
    timeout_s: float | None = Field(None, ge=0.05, le=60)
    """The time of a request that chooses this configuration and declares no time; None: 2 s.  Mostly for language models."""
    adapt: Adaptation | None = None
    """None: the weights stay as they are."""


class Configuration(Choices):
    """A named set of ranking choices."""

    boosts: BoostPlan | None = None
    reranker: RerankerDeclaration | None = None


class FieldDeclaration(Declared):
    """A field of the metadata whose values are a closed list."""

    name: str
    values: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1, strict=False)
    namespaces: tuple[str, ...] | None = Field(None, min_length=1, strict=False)
    """Where the list holds; None: in every namespace."""


class LivePair(Declared):
    """Two configurations that are compared on the requests of users."""

    a: str
    b: str
    share: float = Field(ge=0, le=1)
    """Of the requests that ask for `a`."""


class Interleaving(LivePair):
    """Their hits share the pages of some requests, so that clicks say which is better."""


class Shadow(LivePair):
    """After some requests under `a` have ended, `b` searches the same question on the bulk workers; no user sees its answer."""


class ConfigurationTable(Choices):
    """A configuration as the file has it."""

    boosts: str | None = None
    """The name of a table [boosts.<name>] of this file, or of a shipped one."""
    reranker: str | None = None
    """The name of a table [rerankers.<name>]."""


class BoostTable(Boosts):
    """Boosts as the file has them."""

    unbounded: bool = False
    """True means `max_places` None, because TOML has no null."""

    def resolved(self) -> BoostPlan:
        plain = self.model_dump(exclude={"unbounded", "max_places"})
        return BoostPlan(**plain, max_places=None if self.unbounded else self.max_places)


class PipelineFile(Declared):
    """The tables of a pipeline file, each by its name; a table is read as its kind of declaration later."""

    default_configuration: str | None = None
    stores: dict[str, dict[str, Any]] = Field(default_factory=dict)
    branches: dict[str, dict[str, Any]] = Field(default_factory=dict)
    configurations: dict[str, dict[str, Any]] = Field(default_factory=dict)
    boosts: dict[str, dict[str, Any]] = Field(default_factory=dict)
    rerankers: dict[str, dict[str, Any]] = Field(default_factory=dict)
    encoders: dict[str, dict[str, Any]] = Field(default_factory=dict)
    fields: dict[str, dict[str, Any]] = Field(default_factory=dict)
    interleaving: dict[str, Any] | None = None
    shadow: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What one installation searches and how it ranks."""

    stores: Mapping[str, StoreDeclaration]
    branches: tuple[BranchDeclaration, ...]
    configurations: Mapping[str, Configuration]
    default_configuration: str
    kinds: Kinds = field(repr=False)  # the hash of the declarations is of their repr
    """The built-in kinds and methods, and those of packages that the file names."""
    encoders: Mapping[str, DeclaredEncoder] = field(default_factory=dict)
    """Those that the file declares."""
    fields: Mapping[str, FieldDeclaration] = field(default_factory=dict)
    interleaving: Interleaving | None = None
    shadow: Shadow | None = None

    def branches_of(self, configuration: Configuration) -> tuple[BranchDeclaration, ...]:
        """The branches that `configuration` asks, with its weights, in declared order."""
        weights = configuration.weights or {}
        return tuple(
            branch.model_copy(update={"weight": weights[branch.name]}) if branch.name in weights else branch
            for branch in self.branches
            if configuration.branches is None or branch.name in configuration.branches
        )

    def needs_of(self, branch: BranchDeclaration | BranchPlan) -> frozenset[Need]:
        """What the branch needs of its process."""
        store = self.stores[branch.store]
        return self.kinds.needs(branch.kind, store.kind, store.options)

    def closed_values(self, namespace: str) -> dict[str, tuple[str, ...]]:
        """The allowed values of each field that has a closed list in this namespace."""
        return {
            name: declared.values
            for name, declared in self.fields.items()
            if declared.namespaces is None or namespace in declared.namespaces
        }

    def adaptation_of(self, name: str) -> Adaptation | None:
        """How the weights of this configuration adapt, or those of the one for which it has the proposed weights."""
        return next(
            (
                each.adapt
                for each in self.configurations.values()
                if each.adapt and name in (each.name, proposed_name(each.name))
            ),
            None,
        )

    def shares_of(self, configuration: Configuration) -> dict[str, float]:
        """The weights of the branches that `configuration` asks, with a sum of 1."""
        weights = {branch.name: branch.weight for branch in self.branches_of(configuration)}
        total = sum(weights.values())
        return {name: round(weight / total, 3) for name, weight in weights.items()}

    @property
    def timeouts_s(self) -> dict[str, float]:
        """`timeout_s` of each configuration that declares it; the key `""` is for the default configuration."""
        named = {
            name: configuration.timeout_s
            for name, configuration in self.configurations.items()
            if configuration.timeout_s
        }
        default = named.get(self.default_configuration)
        return named if default is None else {**named, "": default}

    @property
    def rerankers(self) -> dict[str, RerankerDeclaration]:
        """The rerankers that configurations use, by name."""
        used = (configuration.reranker for configuration in self.configurations.values())
        return {reranker.name: reranker for reranker in used if reranker is not None}

    @property
    def capabilities(self) -> tuple[str, ...]:
        """What may be done with each store, in declared order: `db.<store>:read`, `db.<store>:write`."""
        return tuple(
            f"db.{name}:{right}"
            for name, store in self.stores.items()
            for right in (("read", "write") if self._is_written(store) else ("read",))
        )

    def _is_written(self, store: StoreDeclaration) -> bool:
        """Whether documents are indexed into the store, or a declared statement writes to it."""
        options = [store.options, *(branch.options for branch in self.branches if branch.store == store.name)]
        if store.kind == "http" and write_words.writing_word(store.options):
            return True
        return self.kinds.stores[store.kind].writes or any(
            map(cypher.writing_word, cypher.statements(options))
        )

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that need a worker, each once."""
        return (*self.request_queues, QUEUE_INDEX, QUEUE_BULK)

    def check_queues(self, queues: Sequence[str]) -> None:
        """Raises WrongDeclaration that names an unknown queue and the known ones."""
        for queue in queues:
            if queue not in self.queues:
                raise WrongDeclaration(f"no queue {safe_repr(queue)}; there are: {', '.join(self.queues)}")

    @property
    def request_queues(self) -> tuple[str, ...]:
        """The queues for whose messages a caller waits."""
        own = (branch.queue for branch in self.branches)
        return tuple(dict.fromkeys((QUEUE_RETRIEVE, *own, QUEUE_FUSION)))
