"""The ids and metadata of a namespace's passages that a process has loaded; catches up by sequence.

A *row* is a passage's index in these arrays.  A *version* is the index of its
document; each replacement of a document makes a new version.  Rows are only added at the end, in the order of their
rid, and are removed by a mask, so that a snapshot stays valid while others catch up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from models.hits import Hit, new_hit
from search.documents import lookups
from search.documents.lookups import DocumentVersion, SqlConnection, version_of


class Growing:
    """A view taken before an `append` stays unchanged, so readers need no lock."""

    def __init__(self, dtype: DTypeLike) -> None:
        self._array: NDArray[Any] = np.empty(0, dtype=dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def view(self) -> NDArray[Any]:
        return self._array[: self._size]

    def append(self, values: NDArray[Any]) -> None:
        size = self._size + len(values)
        if size > len(self._array):
            # Growing by an eighth copies each value about nine times in all and wastes at most 12 % of the memory.
            larger = np.empty(
                max(size, len(self._array) + len(self._array) // 8, 64), dtype=self._array.dtype
            )
            larger[: self._size] = self.view
            self._array = larger
        self._array[self._size : size] = values
        self._size = size


_DEAD_ROWS = 1_000
"""Fewer dead rows never cause a reload."""

_MOST_EACH = 4
"""Passages of a document that a ranking is expected to have, at most."""

_DOCUMENTS = """
    SELECT document_id, source, CAST(metadata AS TEXT), content_hash, near_duplicate_group FROM chorale_document
    WHERE namespace_id = ? AND sequence > ? AND sequence <= ? AND (+ended IS NULL OR +ended > ?)
"""
_PASSAGES = """
    SELECT rid, passage_id, document_id FROM chorale_passage
    WHERE namespace_id = ? AND sequence > ? AND sequence <= ? AND (+ended IS NULL OR +ended > ?) ORDER BY rid
"""
_ENDED = "SELECT rid FROM chorale_passage WHERE namespace_id = ? AND ended > ? AND ended <= ?"


@dataclass(frozen=True, slots=True)
class Rows:
    """A snapshot: `n` rows of `m` versions."""

    visible: int
    rids: NDArray[np.int64]
    """Shape (n,), ascending."""
    version_of: NDArray[np.int32]
    """Shape (n,)."""
    alive: NDArray[np.bool_]
    """Shape (n,)."""
    versions_alive: NDArray[np.bool_]
    """Shape (m,)."""
    first_rids: NDArray[np.int64]
    """Shape (m,): the rid of each version's first passage, which stands for the whole document."""
    passage_ids: Sequence[str]
    """At least n items."""
    versions: Sequence[DocumentVersion]
    """At least m items."""
    versions_of: Mapping[str, Sequence[int]]
    """Version indices by document id."""

    def at(self, rids: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """The row of each rid, and whether that row exists and is alive."""
        if not len(self.rids):
            return np.zeros(len(rids), np.intp), np.zeros(len(rids), np.bool_)
        rows = np.minimum(np.searchsorted(self.rids, rids), len(self.rids) - 1)
        return rows, (self.rids[rows] == rids) & self.alive[rows]

    def likely(self, depth: int) -> int:
        """How many of the best passages probably have `depth` documents among them: half as many again as on average."""
        return int(depth * min(_MOST_EACH, 1.5 * len(self.version_of) / max(1, len(self.versions)))) + 1

    def hits(self, rows: NDArray[np.intp], scores: NDArray[np.float64]) -> tuple[Hit, ...]:
        passage_ids, versions = self.passage_ids, self.versions
        return tuple(
            [
                new_hit(
                    (
                        passage_ids[row],
                        (version := versions[index]).document_id,
                        score,
                        version.source_type,
                        version.published_at,
                        version.content_hash,
                        version.near_duplicate_group,
                    )
                )
                for row, index, score in zip(
                    rows.tolist(), self.version_of[rows].tolist(), scores.tolist(), strict=True
                )
            ]
        )


class RowTable:
    """Builds snapshots; for one thread at a time."""

    def __init__(self, namespace_id: int) -> None:
        self._namespace_id = namespace_id
        self._rids = Growing(np.int64)
        self._version_of = Growing(np.int32)
        self._alive: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._passage_ids: list[str] = []
        self._versions: list[DocumentVersion] = []
        self._versions_of: dict[str, list[int]] = {}
        self._visible = 0
        self.snapshot = self._snapshot()

    def must_start_again(self, namespace_id: int, visible: int) -> bool:
        """Whether to reload: another namespace has the name, the rows are too far behind, or most rows are dead."""
        dead = len(self._alive) - int(np.count_nonzero(self._alive))
        return (
            self._namespace_id != namespace_id
            or (self._visible > 0 and visible - self._visible >= lookups.TOMBSTONE_BATCHES)
            or dead > max(_DEAD_ROWS, len(self._alive) - dead)
        )

    def catch_up(self, connection: SqlConnection, visible: int) -> Rows:
        """Load every batch up to `visible`, inside the caller's transaction."""
        since = self._visible
        span = (self._namespace_id, since, visible)
        batch: dict[str, int] = {}
        for row in connection.execute(_DOCUMENTS, (*span, visible)):
            version = version_of(*row)
            batch[version.document_id] = len(self._versions)
            self._versions_of.setdefault(version.document_id, []).append(len(self._versions))
            self._versions.append(version)
        # Of what every store has deleted since, the document is gone before its passages.
        passages = connection.execute(_PASSAGES, (*span, visible))
        rows = [row for row in passages if row[2] in batch]
        self._rids.append(np.fromiter((row[0] for row in rows), np.int64, len(rows)))
        self._version_of.append(np.fromiter((batch[row[2]] for row in rows), np.int32, len(rows)))
        self._passage_ids.extend(row[1] for row in rows)
        # A copy, so that running searches keep their mask.
        self._alive = np.concatenate([self._alive, np.ones(len(rows), np.bool_)])
        if since:
            ended = [row[0] for row in connection.execute(_ENDED, span)]
            places, known = self._snapshot().at(np.array(ended, np.int64))
            self._alive[places[known]] = False
        self._visible = visible
        self.snapshot = self._snapshot()
        return self.snapshot

    def _snapshot(self) -> Rows:
        version_of = self._version_of.view
        versions_alive = np.zeros(len(self._versions), np.bool_)
        versions_alive[version_of[self._alive]] = True
        rids = self._rids.view
        first_rids = np.zeros(len(self._versions), np.int64)
        # In reverse, since the last value stays.
        first_rids[version_of[::-1]] = rids[::-1]
        return Rows(
            self._visible,
            rids,
            version_of,
            self._alive,
            versions_alive,
            first_rids,
            self._passage_ids,
            self._versions,
            self._versions_of,
        )


Scored = tuple[NDArray[np.intp], NDArray[np.float64]]
"""Rows and their scores."""


def cut(
    rows: Rows, places: NDArray[np.intp], scores: NDArray[np.float64], depth: int, *, unseen_score: float
) -> Scored | None:
    """The rows of the best `depth` documents among candidate rows with their scores, best first.

    `unseen_score` is the highest score that any other row can have, -inf if there is no other row.  Returns None if
    another row could belong to the ranking: ask again with more candidates.
    """
    places, scores = _ordered(rows, places, scores)
    seen: set[int] = set()
    for size, version in enumerate(rows.version_of[places].tolist(), start=1):
        seen.add(version)
        if len(seen) == depth:
            if scores[size - 1] <= unseen_score:
                return None
            return places[:size], scores[:size]
    return None if unseen_score > -np.inf else (places, scores)


def _ordered(rows: Rows, places: NDArray[np.intp], scores: NDArray[np.float64]) -> Scored:
    order = scores.argsort()[::-1]
    # `x + 0.0` is never minus zero.
    places, scores = places[order], scores[order] + 0.0
    runs: list[list[int]] = []
    for first in np.flatnonzero(scores[1:] == scores[:-1]).tolist():
        if runs and runs[-1][1] == first + 1:
            runs[-1][1] += 1
        else:
            runs.append([first, first + 2])
    for first, end in runs:
        places[first:end] = sorted(places[first:end].tolist(), key=rows.passage_ids.__getitem__)
    return places, scores
