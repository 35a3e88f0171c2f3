"""The documents that a search may return: a mask made from filters and exclusions, cached and only ever extended."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from search.deadline import Deadline
from search.engines.embedded.passage_rows import Growing, Rows
from search.filters import CompiledFilters, compile_filters, unknown_field_warnings
from search.protocol import Search

_MOST_CACHED = 64
_MOST_CACHED_BYTES = 64 * 2**20
"""A filter of 200 fields takes 200 bytes a document."""
_PORTION = 128
"""Documents that are judged at a time; after each portion every search can use the results."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """The rows that may be hits; `rows` is None if all living rows may."""

    rows: NDArray[np.bool_] | None
    warnings: tuple[str, ...] = ()


class _Verdicts:
    """One filter's result for each document version; a version never changes, so its result never changes."""

    def __init__(self, filters: CompiledFilters) -> None:
        self.filters = filters
        self.matches = Growing(np.bool_)
        self.has_field = [Growing(np.bool_) for _ in filters.fields]

    @property
    def bytes(self) -> int:
        return len(self.matches) * (1 + len(self.has_field))

    def extend(self, judged: Sequence[tuple[bool, list[bool]]]) -> None:
        for grown, has_field in zip(
            self.has_field, zip(*(has for _, has in judged), strict=True), strict=True
        ):
            grown.append(np.array(has_field, np.bool_))
        # Last, since its length says how many are judged.
        self.matches.append(np.array([matches for matches, _ in judged], np.bool_))


class Masks:
    """The results of the filters used last.  Thread-safe; nothing is judged under the lock."""

    def __init__(self) -> None:
        self._verdicts: OrderedDict[str, _Verdicts] = OrderedDict()
        self._lock = threading.Lock()

    def allowed(self, rows: Rows, search: Search, deadline: Deadline) -> Allowed:
        """Raises StoreTimeout; the next search with the same filters goes on from there."""
        warnings: tuple[str, ...] = ()
        versions = rows.versions_alive
        if search.only_ids:
            versions = _among(rows, search)
        elif search.filters:
            verdicts = self._judged(rows, compile_filters(search.filters), deadline)
            size = len(versions)
            known = (np.any(has.view[:size] & versions) for has in verdicts.has_field)
            unknown = unknown_field_warnings(verdicts.filters.fields, known)
            warnings = verdicts.filters.warnings + unknown
            versions = np.zeros_like(versions) if unknown else versions & verdicts.matches.view[:size]
        if excluded := [
            i for name in search.exclude_ids for i in rows.versions_of.get(name, ()) if i < len(versions)
        ]:
            versions = versions.copy()
            versions[excluded] = False
        if versions is rows.versions_alive:
            return Allowed(None)
        return Allowed(rows.alive & versions[rows.version_of], warnings)

    def _judged(self, rows: Rows, filters: CompiledFilters, deadline: Deadline) -> _Verdicts:
        """The filters' results for all of these rows, or for more."""
        with self._lock:
            verdicts = self._verdicts.setdefault(filters.key, _Verdicts(filters))
            self._verdicts.move_to_end(filters.key)
            while len(self._verdicts) > 1 and (
                len(self._verdicts) > _MOST_CACHED
                or sum(one.bytes for one in self._verdicts.values()) > _MOST_CACHED_BYTES
            ):
                self._verdicts.popitem(last=False)
        while (done := len(verdicts.matches)) < len(rows.versions_alive):
            judged = []
            for version in rows.versions[done : min(done + _PORTION, len(rows.versions_alive))]:
                judged.append(verdicts.filters.judged(version.fields))
                if deadline.remaining_s <= 0:
                    break
            with self._lock:
                # Another search may have judged the same documents meanwhile.
                if len(verdicts.matches) == done:
                    verdicts.extend(judged)
            deadline.check()
        return verdicts


def _among(rows: Rows, search: Search) -> NDArray[np.bool_]:
    """The versions of these documents that meet the filters: judged at once, whatever the size of the namespace."""
    compiled = compile_filters(search.filters or {})
    versions = np.zeros_like(rows.versions_alive)
    for name in search.only_ids:
        for i in rows.versions_of.get(name, ()):
            if i < len(versions) and rows.versions_alive[i]:
                versions[i] = compiled.matches(rows.versions[i].fields)
    return versions
