"""The built-in kinds and methods, found in the files of `branches/kinds`, `search/kinds`, `fusion/methods` and `fusion/presets`."""

from __future__ import annotations

import importlib
import pkgutil
from types import MappingProxyType, ModuleType
from typing import Any

import branches.kinds
import fusion.methods
import fusion.presets
import search.kinds
from models.extensions import Kinds


def declared_in(folder: ModuleType, variable: str) -> dict[str, Any]:
    """The value of `variable` in each module of the folder, by the module's name."""
    return {
        found.name: getattr(importlib.import_module(f"{folder.__name__}.{found.name}"), variable)
        for found in pkgutil.iter_modules(folder.__path__)
    }


BUILT_IN = Kinds(
    stores=MappingProxyType(declared_in(search.kinds, "KIND")),
    branches=MappingProxyType(declared_in(branches.kinds, "KIND")),
    methods=MappingProxyType(
        {
            method.name: method
            for folder in (fusion.methods, fusion.presets)
            for method in declared_in(folder, "METHOD").values()
        }
    ),
)
