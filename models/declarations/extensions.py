"""What a pipeline file names: kinds of stores, branches and generators, and fusion methods; and what a generator returns.

Built-in ones and those of packages are objects of the same classes.  A package offers its own as entry points; a pipeline
names them by the name of the entry point:

| group | its objects |
|---|---|
| `chorale.stores` | StoreKind |
| `chorale.branch_kinds` | BranchKind |
| `chorale.methods` | models.declarations.fusion_method.Method |
| `chorale.generators` | GeneratorKind |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from models.errors import StageFailure, WrongDeclaration

if TYPE_CHECKING:
    from models.declarations.fusion_method import Method
    from models.hits import Ranking


def _variable(name: str) -> str:
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,127}", name):
        # Not quoted: it may be the key itself.
        raise ValueError("the name of an environment variable, never the key itself")
    return name


Variable: TypeAlias = Annotated[str, AfterValidator(_variable)]

Revision: TypeAlias = Annotated[str, Field(max_length=128, pattern=r"^\w[\w./-]*$")]
"""Commit, tag or branch of a model on the Hugging Face hub."""


class Declared(BaseModel):
    """Read strictly: an unknown field is an error."""

    # A process reads tables of a few kinds, so the validators of the other kinds are never built.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


Options: TypeAlias = Mapping[str, tuple[str, ...] | None] | type[BaseModel]
"""The options of a kind.  By name: None for any value, or the allowed values; or a model that reads them."""


Need: TypeAlias = Literal["questions", "passages", "text", "vectors", "graph"]
"""The embedder for questions, the embedder for passages, the words of an embedded index, its vectors, a graph of documents."""


StoreSearch: TypeAlias = Literal["text", "vectors", "hybrid", "listing"]
"""BM25, a search by vectors, both fused by the store, a list of documents by their metadata."""


@dataclass(frozen=True, slots=True)
class StoreKind:
    """A kind of document index."""

    open: Callable[..., Any]
    """The store's name and its declared options -> a `search.protocol.Searches`; if it `writes`, an `Engine` too."""
    options: Options = field(default_factory=dict)
    writes: bool = False
    """Whether documents can be indexed into it."""
    in_home: bool = False
    """Whether it keeps whole documents in files of the installation's folder.  `open` then also takes `home`, that folder,
    and `needs`, what the branches of the process use."""
    documents_of: str | None = None
    """The option that names another store, whose documents it reads.  `open` then also takes `documents`, that store, and `needs`."""
    check_cypher: Callable[[Mapping[str, Any], str], str | None] | None = None
    """The declared options and a Cypher statement -> why the store refuses it.  None: the store runs no Cypher."""
    needs: Callable[[Mapping[str, Any]], frozenset[Need]] = lambda options: frozenset()
    """The declared options -> what a branch needs of its process to search the store, beside what its own kind needs."""
    serves: Callable[[Mapping[str, Any]], Collection[StoreSearch]] = lambda options: get_args(StoreSearch)
    """The declared options -> the searches that the store serves."""


@dataclass(frozen=True, slots=True)
class BranchKind:
    """What a branch does; its task is `chorale.search.<name>`."""

    search: Callable[[Any], list[Ranking]]
    """A `tasks.branches.branch_task.BranchTask` -> a ranking for each of its questions.  The branch fails with the reason of a StageFailure."""
    options: Options = field(default_factory=dict)
    needs: frozenset[Need] = frozenset()
    """Parts of the process that the branch uses; a worker loads them before the first request."""
    variants: frozenset[str] = frozenset()
    """The kinds of variants that a language model writes for it, if its options are an ExpansionOptions."""
    options_in_plan: bool = True
    """False for options that may hold a long prompt: its workers read them from their own pipeline file, and the plan has
    only their fingerprint (`models`)."""
    searches_http: bool | None = None
    """True: it searches stores of kind `http`.  False: it searches stores of other kinds.  None: it searches stores of any kind."""

    store_search: StoreSearch | None = None
    """The search that its store must serve; None: a search that is not in the list."""
    floor: float | None = None
    """The lowest score that any document can have, such as 0 for BM25; None if there is none."""

    always_finds: Callable[[Mapping[str, Any]], bool] = lambda options: False
    """The options in the plan -> whether each search finds something wherever any document meets the filters, as a comparison of
    vectors does.  If it finds nothing, the answer says that no document meets the filters."""

    can_batch: bool = False
    """True: parts of several requests may be searched as one part.  Of a request the kind then reads only the namespace, the
    filters and the exclusions."""

    def __post_init__(self) -> None:
        if unknown := sorted(self.needs - set(get_args(Need))):
            raise ValueError(f"no need {', '.join(unknown)}; there are: {', '.join(get_args(Need))}")


@dataclass(frozen=True, slots=True)
class GeneratorKind:
    """What a `hyde` branch may name as its `generator`."""

    open: Callable[[Mapping[str, Any]], Any]
    """The declared `generator_options` -> an `inference.protocol.HypothesisGenerator`."""


@dataclass(frozen=True, slots=True)
class Kinds:
    """Tables of kinds and methods, each by name."""

    stores: Mapping[str, StoreKind] = field(default_factory=dict)
    branches: Mapping[str, BranchKind] = field(default_factory=dict)
    methods: Mapping[str, Method] = field(default_factory=dict)

    def __or__(self, other: Kinds) -> Kinds:
        """Both; a name of `other` replaces the same name here."""
        return Kinds(
            {**self.stores, **other.stores},
            {**self.branches, **other.branches},
            {**self.methods, **other.methods},
        )

    def needs(self, branch: str, store: str, options: Mapping[str, Any]) -> frozenset[Need]:
        """What a branch of this kind needs of its process to search a store of this kind with these options."""
        store_needs = self.stores[store].needs(options) if store in self.stores else frozenset()
        return self.branches[branch].needs | store_needs

    def refusal(self, branch: str, store: str, options: Mapping[str, Any]) -> str | None:
        """Why a branch of this kind cannot search a store of this kind with these options; None if it can, or there is no such store."""
        store_search = self.branches[branch].store_search
        if (
            store_search is None
            or store not in self.stores
            or store_search in (serves := self.stores[store].serves)(options)
        ):
            return None
        subject = f"a branch of kind {branch!r}"
        if store_search in serves({**options, "vectors": True}):
            return f"{subject} needs a store with `vectors = true`: set the option, or take the branch out"
        able = sorted(
            name for name, kind in self.stores.items() if store_search in kind.serves({"vectors": True})
        )
        return f"{subject} cannot search a store of kind {store!r}; there are: {', '.join(able)}"

    def method(self, name: str) -> Method:
        """Raises WrongDeclaration, which lists the table."""
        if name not in self.methods:
            raise WrongDeclaration(f"no fusion method {name!r}; there are: {', '.join(self.methods)}")
        return self.methods[name]


@dataclass(frozen=True, slots=True)
class PartialGeneration:
    """At least one text, but fewer than requested."""

    texts: tuple[str, ...]
    failure: StageFailure
    """Number of texts, and the first error."""


GenerationResult: TypeAlias = tuple[str, ...] | PartialGeneration | StageFailure
