"""The built-in kinds and methods: the tables of `branches` and `fusion`, and the files of `search/kinds`."""

from __future__ import annotations

import importlib
import pkgutil
from types import MappingProxyType

import search.kinds
from branches import hyde, searches
from fusion.methods import METHODS
from fusion.presets import PRESETS
from models.extensions import Kinds, StoreKind


def _stores() -> dict[str, StoreKind]:
    """The `KIND` of each module of `search/kinds`, by the module's name."""
    return {
        module.name: importlib.import_module(f"{search.kinds.__name__}.{module.name}").KIND
        for module in pkgutil.iter_modules(search.kinds.__path__)
    }


_BRANCHES = {**searches.KINDS, "hyde": hyde.HYDE}

BUILT_IN = Kinds(
    stores=MappingProxyType(_stores()),
    branches=MappingProxyType(dict(sorted(_BRANCHES.items()))),
    methods=MappingProxyType({method.name: method for method in (*METHODS, *PRESETS)}),
)
