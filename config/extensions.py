"""Store kinds, branch kinds, fusion methods and generators of installed packages, found by entry points.

A package is imported only if a pipeline names what it offers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from models.declarations.extensions import BranchKind, GeneratorKind, StoreKind
from models.declarations.fusion_method import Method
from models.errors import WrongDeclaration

GROUPS: Mapping[str, tuple[str, type]] = {
    "store kind": ("chorale.stores", StoreKind),
    "branch kind": ("chorale.branch_kinds", BranchKind),
    "fusion method": ("chorale.methods", Method),
    "generator": ("chorale.generators", GeneratorKind),
}
"""What a pipeline names -> its group of entry points, and the class of the objects there."""


installed = cache(entry_points)
"""Cached: it reads the metadata of every installed package, some 10 ms."""


@cache
def offered(what: str) -> Mapping[str, tuple[EntryPoint, ...]]:
    """The entry points by name, without importing them."""
    group, _ = GROUPS[what]
    points: dict[str, tuple[EntryPoint, ...]] = {}
    for point in installed().select(group=group):
        points[point.name] = (*points.get(point.name, ()), point)
    return points


def find(what: str, name: str, built_in: Collection[str]) -> Any | None:
    """What a package offers under this name, imported; None for a built-in name.

    Raises WrongDeclaration if nobody or several packages offer it, or what is offered cannot be used.
    """
    packages = [package(point) for point in offered(what).get(name, ())]
    owners = ["Chorale itself", *packages] if name in built_in else packages
    if not owners:
        known = ", ".join(sorted({*built_in, *offered(what)}))
        raise WrongDeclaration(f"no {what} {name[:80]!r}; there are: {known or 'none'}")
    if len(owners) > 1:
        raise WrongDeclaration(
            f"{what} {name!r} is claimed by {' and by '.join(owners)}: uninstall all but one"
        )
    return load(what, name) if packages else None


@cache
def load(what: str, name: str) -> Any:
    """Import what the package offers, once; raises WrongDeclaration, which names the package."""
    group, kind = GROUPS[what]
    (point,) = offered(what)[name]
    subject = f"{what} {name!r} of the package {package(point)}"
    try:
        extension = point.load()
    except Exception as error:  # an import may raise anything
        raise WrongDeclaration(
            f"{subject} cannot be imported: {type(error).__name__}: {error}; mend or reinstall it"
        ) from error
    if not isinstance(extension, kind):
        raise WrongDeclaration(
            f"{subject} is {type(extension).__name__}; an entry point of {group} must be a {kind.__module__}.{kind.__name__}"
        )
    if isinstance(extension, Method) and extension.name != name:
        raise WrongDeclaration(f"{subject} has the name {extension.name!r}; give both the same name")
    return extension


def package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value
