"""The vectors of a namespace that one process has loaded: segments that it shares with other processes, and vectors that no segment has."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.documents import Matrix
from search.documents.lookups import STORED, SqlConnection
from search.engines.embedded.passage_rows import Rows
from search.engines.embedded.vector_segments import Segment, SegmentFiles

_READ_AT_ONCE = 4_096
_RETRY_S = 1.0
"""After this time a process looks again for a segment that another process was writing."""

# The plus makes SQLite walk the table by rid; by namespace it would sort all vectors first.
_VECTORS = """
    SELECT rid, vector FROM chorale_passage
    WHERE +namespace_id = ? AND rid > ? AND rid <= ? AND vector IS NOT NULL AND (+ended IS NULL OR +ended > ?)
    ORDER BY rid LIMIT ?
"""

_Read = tuple[NDArray[np.int64], Matrix]


@dataclass(frozen=True, slots=True)
class Part:
    """Some vectors of a segment, all of living passages."""

    segment: Segment
    places: NDArray[np.intp]
    """The index of each in the segment, ascending."""
    rows: NDArray[np.intp]
    """The row of each."""

    def among(self, allowed: NDArray[np.bool_]) -> Part:
        chosen = allowed[self.rows]
        return Part(self.segment, self.places[chosen], self.rows[chosen])


Vectors = Sequence[Part]
"""A snapshot: the vectors of all living passages."""


class VectorTable:
    """Loads the vectors of the rows; for one thread at a time."""

    def __init__(self, namespace_id: int, files: SegmentFiles) -> None:
        self.files = files
        self._namespace_id = namespace_id
        self._segments: list[Segment] = []
        self._own = Segment(np.zeros(0, np.int64), np.zeros((0, files.dimension), np.float32))
        self._loaded = 0
        """The last rid that was visible."""
        self.retry_at_s = math.inf
        """When `catch_up` may find a segment for vectors that this process now has itself (monotonic)."""

    def catch_up(self, connection: SqlConnection, rows: Rows) -> Vectors:
        """Load new vectors, inside the transaction that loaded `rows`."""
        self.retry_at_s = math.inf
        while (segment := self._next_segment(connection, rows)) is not None:
            self._segments.append(segment)
        parts = [_part_of(segment, rows) for segment in self._segments]
        is_lacking = rows.alive.copy()
        for part in parts:
            is_lacking[part.rows] = False
        lacking = rows.rids[is_lacking]
        is_needed = np.isin(self._own.rids, lacking)
        rids, vectors = self._own.rids[is_needed], self._own.vectors[is_needed]
        fresh = lacking[lacking > self._loaded]
        if len(fresh):
            read = self._read(connection, rows, int(fresh[0]) - 1, len(rows.rids), among=fresh)
            rids, vectors = np.concatenate([rids, read[0]]), np.concatenate([vectors, read[1]])
        self._own = Segment(rids, vectors)
        self._loaded = int(rows.rids[-1]) if len(rows.rids) else 0
        return [*parts, _part_of(self._own, rows)]

    def _next_segment(self, connection: SqlConnection, rows: Rows) -> Segment | None:
        """None if too few passages live after the last one, or no file can be written: their vectors stay in this process."""
        files, number = self.files, len(self._segments)
        after = int(self._segments[-1].rids[-1]) if self._segments else 0
        first = np.searchsorted(rows.rids, after, "right")
        if np.count_nonzero(rows.alive[first:]) < files.size:
            return None

        def opened() -> Segment | None:
            segment = files.open(number, after)
            # A segment with mostly dead passages is written anew.
            is_used = segment is not None and len(_part_of(segment, rows).rows) >= files.size / 2
            return segment if is_used else None

        if (segment := opened()) is not None:
            return segment
        try:
            with files.writing():
                # Another process may have written it meanwhile.
                if (segment := opened()) is None:
                    rids, vectors = self._read(connection, rows, after, files.size)
                    if len(rids) == files.size:
                        files.write(number, after, rids, vectors)
                        segment = files.open(number, after)
        except OSError as error:
            # The other process has the lock for its next segment already, but may have written this one.
            if (segment := opened()) is None and isinstance(error, TimeoutError):
                self.retry_at_s = time.monotonic() + _RETRY_S
        return segment

    def _read(
        self,
        connection: SqlConnection,
        rows: Rows,
        after: int,
        most: int,
        among: NDArray[np.int64] | None = None,
    ) -> _Read:
        """Rids and vectors of living passages that follow the rid `after`; `among` limits them to these rids."""
        span = (self._namespace_id, after, int(rows.rids[-1]), rows.visible, most)
        result = connection.execute(_VECTORS, span)
        parts: list[_Read] = [(self._own.rids[:0], self._own.vectors[:0])]
        while part := result.fetchmany(_READ_AT_ONCE):
            rids = np.array([rid for rid, _ in part], np.int64)
            vectors = np.frombuffer(b"".join(raw for _, raw in part), STORED).reshape(len(part), -1)
            known = np.isin(rids, among) if among is not None else slice(None)
            parts.append((rids[known], vectors[known]))
        return np.concatenate([rids for rids, _ in parts]), np.concatenate([vectors for _, vectors in parts])


def _part_of(segment: Segment, rows: Rows) -> Part:
    places, is_alive = rows.at(segment.rids)
    return Part(segment, np.flatnonzero(is_alive), places[is_alive])
