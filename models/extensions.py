"""What a pipeline file names: kinds of stores, branches and generators, and fusion methods.

Built-in ones and those of packages are objects of the same classes.  A package offers its own by entry points, whose
names are those that a pipeline uses:

| group | its objects |
|---|---|
| `chorale.stores` | StoreKind |
| `chorale.branch_kinds` | BranchKind |
| `chorale.methods` | models.fusion_method.Method |
| `chorale.generators` | GeneratorKind |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from pydantic import BaseModel

from models.errors import WrongDeclaration
from models.fusion_method import Method

if TYPE_CHECKING:
    from models.hits import Ranking

Options: TypeAlias = Mapping[str, tuple[str, ...] | None] | type[BaseModel]
"""The options that a kind knows: by name, None for any value, else one of these; or a model that reads them."""


Need: TypeAlias = Literal["questions", "passages", "text", "vectors"]
"""The embedder's side for questions, that for passages; of an embedded index its words, its vectors."""


@dataclass(frozen=True, slots=True)
class StoreKind:
    """A kind of document index."""

    open: Callable[..., Any]
    """The store's name and its options as declared -> a `search.protocol.Searches`, a `Store` where it `writes`."""
    options: Options = field(default_factory=dict)
    writes: bool = False
    """Whether documents can be indexed into it."""
    in_home: bool = False
    """Whether its files are in the installation's folder, whole documents among them.  `open` then also takes `home`, that
    folder, and `needs`, what the branches of the process use."""


@dataclass(frozen=True, slots=True)
class BranchKind:
    """What a branch does; its task is `chorale.search.<name>`."""

    search: Callable[[Any], list[Ranking]]
    """A `branches.part.Part` -> a ranking for each of its questions.  A StageFailure is the branch's reason."""
    options: Options = field(default_factory=dict)
    needs: frozenset[Need] = frozenset()
    """What it uses of its process, so that this is loaded before the first request."""
    variants: frozenset[str] = frozenset()
    """The kinds of variants that a language model writes for it, where its options are `branches.expansion`'s."""
    options_in_plan: bool = True
    """False: its options may hold a long prompt, so its workers read them from their own pipeline file, and the plan has
    their fingerprint among its `models`."""
    asks_http: bool | None = None
    """True: it asks stores of kind `http` alone.  False: it asks stores of every other kind.  None: of any kind."""

    def __post_init__(self) -> None:
        if unknown := sorted(self.needs - set(get_args(Need))):
            raise ValueError(f"no need {', '.join(unknown)}; there are: {', '.join(get_args(Need))}")


@dataclass(frozen=True, slots=True)
class GeneratorKind:
    """What a `hyde` branch may name as its `generator`."""

    open: Callable[[Mapping[str, Any]], Any]
    """`generator_options` as declared -> an `inference.protocol.HypothesisGenerator`."""


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds and methods that are known, each table by name."""

    stores: Mapping[str, StoreKind] = field(default_factory=dict)
    branches: Mapping[str, BranchKind] = field(default_factory=dict)
    methods: Mapping[str, Method] = field(default_factory=dict)

    def __or__(self, other: Kinds) -> Kinds:
        """Both; `other` wins where a name stands in both."""
        return Kinds(
            {**self.stores, **other.stores},
            {**self.branches, **other.branches},
            {**self.methods, **other.methods},
        )

    def method(self, name: str) -> Method:
        """Raises WrongDeclaration, which lists the table."""
        if name not in self.methods:
            raise WrongDeclaration(f"no fusion method {name!r}; there are: {', '.join(self.methods)}")
        return self.methods[name]
