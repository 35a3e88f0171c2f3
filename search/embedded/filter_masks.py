"""The documents that a search may return: a mask made from filters and exclusions, cached and only ever extended."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from search.embedded.passage_rows import Rows
from search.filters import CompiledFilters, compile_filters, elements, unknown_field_warning

_KEPT = 64


@dataclass(frozen=True, slots=True)
class Allowed:
    """The rows that may be hits; `rows` is None if all living rows may."""

    rows: NDArray[np.bool_] | None
    warnings: tuple[str, ...] = ()


class _Verdicts:
    """One filter's result for each document version; a version never changes, so its result never changes."""

    def __init__(self, filters: CompiledFilters) -> None:
        self.filters = filters
        self.matches: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.has_field: NDArray[np.bool_] = np.zeros((len(filters.fields), 0), np.bool_)

    def extend(self, rows: Rows) -> None:
        first, size = len(self.matches), len(rows.versions_alive)
        if first >= size:
            return
        new = [rows.versions[i].fields for i in range(first, size)]
        matches = [self.filters.matches(fields) for fields in new]
        has_field = [[bool(elements(fields, name)) for fields in new] for name in self.filters.fields]
        self.matches = np.concatenate([self.matches, np.array(matches, np.bool_)])
        self.has_field = np.concatenate([self.has_field, np.array(has_field, np.bool_)], axis=1)


class Masks:
    """The results of the filters used last.  Thread-safe."""

    def __init__(self) -> None:
        self._verdicts: OrderedDict[str, _Verdicts] = OrderedDict()
        self._lock = threading.Lock()

    def allowed(self, rows: Rows, filters: Mapping[str, Any] | None, exclude_ids: Sequence[str]) -> Allowed:
        warnings: tuple[str, ...] = ()
        versions = rows.versions_alive
        if filters:
            matches, has_field, compiled = self._judge(rows, filters)
            unknown = [
                field
                for field, has in zip(compiled.fields, has_field, strict=True)
                if not np.any(has & rows.versions_alive)
            ]
            warnings = compiled.warnings + tuple(map(unknown_field_warning, unknown))
            versions = np.zeros_like(versions) if unknown else versions & matches
        if excluded := [
            i for name in exclude_ids for i in rows.versions_of.get(name, ()) if i < len(versions)
        ]:
            versions = versions.copy()
            versions[excluded] = False
        if versions is rows.versions_alive:
            return Allowed(None)
        return Allowed(rows.alive & versions[rows.version_of], warnings)

    def _judge(
        self, rows: Rows, filters: Mapping[str, Any]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], CompiledFilters]:
        compiled = compile_filters(filters)
        with self._lock:
            kept = self._verdicts.setdefault(compiled.key, _Verdicts(compiled))
            self._verdicts.move_to_end(compiled.key)
            if len(self._verdicts) > _KEPT:
                self._verdicts.popitem(last=False)
            kept.extend(rows)
            size = len(rows.versions_alive)
            return kept.matches[:size], kept.has_field[:, :size], compiled
