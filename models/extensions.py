"""What a package from outside offers by an entry point; the same shapes are a pipeline's built-in choices.

| group | its objects |
|---|---|
| `chorale.stores` | StoreKind |
| `chorale.branch_kinds` | BranchKind |
| `chorale.methods` | fusion.protocol.Method, whose name is that of the entry point |
| `chorale.generators` | GeneratorKind |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from pydantic import BaseModel

from models.hits import Ranking

Options: TypeAlias = Mapping[str, tuple[str, ...] | None] | type[BaseModel]
"""The options that a kind knows: by name, None for any value, else one of these; or a model that reads them."""


Need: TypeAlias = Literal["questions", "passages", "text", "vectors"]
"""The embedder's side for questions, that for passages; of an embedded index its words, its vectors."""


@dataclass(frozen=True, slots=True)
class StoreKind:
    """A document index that somebody else wrote."""

    open: Callable[[str, Mapping[str, Any]], Any]
    """The store's name and its options as declared -> a `search.protocol.Searches`, a `Store` where it `writes`."""
    options: Options = field(default_factory=dict)
    writes: bool = False
    """Whether documents can be indexed into it."""


@dataclass(frozen=True, slots=True)
class BranchKind:
    """What a branch does; its task is `chorale.search.<name>`."""

    search: Callable[[Any], list[Ranking]]
    """A `tasks.request.search.Part` -> a ranking for each of its questions.  A StageFailure is the branch's reason."""
    options: Options = field(default_factory=dict)
    needs: frozenset[Need] = frozenset()
    """What it uses of its process, so that this is loaded before the first request."""

    def __post_init__(self) -> None:
        if unknown := sorted(self.needs - set(get_args(Need))):
            raise ValueError(f"no need {', '.join(unknown)}; there are: {', '.join(get_args(Need))}")


@dataclass(frozen=True, slots=True)
class GeneratorKind:
    """What a `hyde` branch may name as its `generator`."""

    open: Callable[[Mapping[str, Any]], Any]
    """`generator_options` as declared -> an `inference.protocol.HypothesisGenerator`."""
