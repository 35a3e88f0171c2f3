"""Stores, branch kinds, fusion methods and generators from other packages, found by their entry points.

What a pipeline does not name is never imported.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from models.errors import WrongDeclaration
from models.extensions import BranchKind, GeneratorKind, StoreKind
from models.fusion_method import Method

GROUPS: Mapping[str, tuple[str, type]] = {
    "store kind": ("chorale.stores", StoreKind),
    "branch kind": ("chorale.branch_kinds", BranchKind),
    "fusion method": ("chorale.methods", Method),
    "generator": ("chorale.generators", GeneratorKind),
}
"""What a declaration names -> its group of entry points, and the type of what stands there."""


installed = cache(entry_points)
"""Read once: it looks into every package there is, some 10 ms."""


@cache
def offered(what: str) -> Mapping[str, tuple[EntryPoint, ...]]:
    """The entry points of each name, none of them imported."""
    group, _ = GROUPS[what]
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in installed().select(group=group):
        found[point.name] = (*found.get(point.name, ()), point)
    return found


def choices(what: str, built_in: Collection[str]) -> list[str]:
    return sorted({*built_in, *offered(what)})


def claimed(what: str, name: str, built_in: Collection[str]) -> str | None:
    """Why the name is not to be had, where several claim it."""
    packages = [package(point) for point in offered(what).get(name, ())]
    owners = ["Chorale itself", *packages] if name in built_in else packages
    if len(owners) < 2:
        return None
    return f"{what} {name!r} is claimed by {' and by '.join(owners)}: uninstall all but one"


@cache
def load(what: str, name: str) -> Any:
    """What the package offers, imported once; raises WrongDeclaration that names the package."""
    group, kind = GROUPS[what]
    (point,) = offered(what)[name]
    said = f"{what} {name!r} of the package {package(point)}"
    try:
        found = point.load()
    except Exception as error:  # whatever an import may come to
        raise WrongDeclaration(
            f"{said} cannot be imported: {type(error).__name__}: {error}; mend or reinstall it"
        ) from error
    if not isinstance(found, kind):
        raise WrongDeclaration(
            f"{said} is {type(found).__name__}; under {group} stands a {kind.__module__}.{kind.__name__}"
        )
    if isinstance(found, Method) and found.name != name:
        raise WrongDeclaration(f"{said} calls itself {found.name!r}; give both the same name")
    return found


def package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value
