"""What packages from outside bring into this process, as far as its pipeline names it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, cast

from config import extensions
from config.pipeline import Pipeline, StoreDeclaration
from fusion.methods import METHODS
from fusion.protocol import Method
from models.errors import NotConfigured, ServiceError, WrongDeclaration

if TYPE_CHECKING:
    from models.hits import Ranking
    from search.protocol import Searches


def add_methods(pipeline: Pipeline) -> None:
    """Into the one table of fusion methods; raises WrongDeclaration for what is none."""
    for name in {configuration.method for configuration in pipeline.configurations.values()}.difference(
        METHODS
    ):
        found = extensions.load("fusion method", name)
        if not isinstance(found, Method) or found.name != name:
            (point,) = extensions.offered("fusion method")[name]
            raise WrongDeclaration(
                f"fusion method {name!r} of the package {extensions.package(point)} is no fusion.protocol.Method of "
                "that name"
            )
        METHODS[name] = found


def open_store(declared: StoreDeclaration) -> Searches:
    """A store whose kind a package brings; raises NotConfigured where it does not open."""
    try:
        return cast(
            "Searches", extensions.load("store kind", declared.kind).open(declared.name, declared.options)
        )
    except ServiceError:
        raise
    except Exception as error:  # whatever foreign code may raise
        raise NotConfigured(
            f"the store {declared.name!r} cannot be opened: {type(error).__name__}: {error}"
        ) from error


def search_of(kind: str) -> Callable[[Any], list[Ranking]]:
    """What a branch of this kind does with its `tasks.request.search.Part`."""
    return cast("Callable[[Any], list[Ranking]]", extensions.load("branch kind", kind).search)


def outside_kinds(pipeline: Pipeline, built_in: Collection[str]) -> set[str]:
    """The kinds of this pipeline's branches that packages bring."""
    offered = extensions.offered("branch kind")
    return {branch.kind for branch in pipeline.branches if branch.kind in offered}.difference(built_in)
