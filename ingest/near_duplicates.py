"""Groups of near-duplicates, kept between runs."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from ingest.minhash import MIN_WORDS, PERMUTATIONS, SHINGLE_WORDS, Signature, signature, similarity

_FORMAT = 1
_WANTED_RECALL = 0.98


class NearDuplicates:
    """Gives each document the group of the first text that it is a near-duplicate of.

    A text is compared with the first of each group alone, so that A ~ B and B ~ C do not put A and C
    together.  One writer; not to be shared by threads.
    """

    def __init__(self, path: Path | None = None, *, threshold: float = 0.85) -> None:
        """`path`: where `save` keeps the state (none: in memory); an unreadable file is begun anew.

        Groups of another threshold are not taken over.
        """
        if not 0.5 <= threshold <= 1:
            raise ValueError(f"threshold: {threshold}; allowed: 0.5 to 1")
        self.path = path
        self.threshold = threshold
        self._rows = _rows_per_band(threshold)
        self._version: tuple[int, ...] | None = None
        self.clear()
        self.refresh()

    def refresh(self) -> None:
        """Take over what another process has saved since, or deleted."""
        if self.path is None or (version := _version(self.path)) == self._version:
            return
        self._version = version
        self.clear()
        self._load(self.path)
        self._is_changed = False

    def clear(self) -> None:
        """Forget everything, for a namespace that is built anew."""
        self._is_changed = True
        self._group_of: dict[str, str] = {}
        self._members: Counter[str] = Counter()
        self._leaders: dict[str, Signature] = {}
        self._bands: defaultdict[bytes, set[str]] = defaultdict(set)

    def assign(self, document_id: str, text: str) -> str | None:
        """The group of the document, which replaces what was known of it; None if it is the first of its own.

        A group is named after the document that began it, so documents are near-duplicates of each other
        when `group or document_id` is equal.
        """
        self.forget(document_id)
        if (own := signature(text)) is None:
            return None
        self._is_changed = True
        candidates = set().union(*(self._bands.get(band, ()) for band in self._bands_of(own)))
        ranked = sorted((-similarity(own, self._leaders[group]), group) for group in candidates)
        if ranked and -ranked[0][0] >= self.threshold:
            group = ranked[0][1]
        else:
            group = self._free_name(document_id)
            self._lead(group, own)
        self._group_of[document_id] = group
        self._members[group] += 1
        return None if group == document_id else group

    def forget(self, document_id: str) -> None:
        """Take a document out; a group ends with its last member."""
        group = self._group_of.pop(document_id, None)
        if group is None:
            return
        self._is_changed = True
        self._members[group] -= 1
        if not self._members[group]:
            del self._members[group]
            for band in self._bands_of(self._leaders.pop(group)):
                self._bands[band].discard(group)
                if not self._bands[band]:
                    del self._bands[band]

    def save(self) -> None:
        """Write the state to `path`, whole or not at all, where it is another than there."""
        if self.path is None or not self._is_changed:
            return
        groups = list(self._leaders)
        names = {"settings": self._settings(), "groups": groups, "group_of": self._group_of}
        signatures = (
            np.stack(list(self._leaders.values())) if groups else np.zeros((0, PERMUTATIONS), np.uint32)
        )
        buffer = io.BytesIO()
        np.savez(buffer, names=np.frombuffer(json.dumps(names).encode(), np.uint8), signatures=signatures)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        unfinished.write_bytes(buffer.getvalue())
        unfinished.replace(self.path)
        self._version, self._is_changed = _version(self.path), False

    def _load(self, path: Path) -> None:
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
                names = json.loads(stored["names"].tobytes())
                signatures = stored["signatures"]
            if names["settings"] != self._settings() or signatures.shape != (
                len(names["groups"]),
                PERMUTATIONS,
            ):
                return
            group_of: dict[str, str] = names["group_of"]
            if set(group_of.values()) != set(names["groups"]):
                return
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
            return
        for group, own in zip(names["groups"], signatures, strict=True):
            self._lead(group, own)
        self._group_of = group_of
        self._members = Counter(group_of.values())

    def _settings(self) -> list[float]:
        return [_FORMAT, self.threshold, PERMUTATIONS, SHINGLE_WORDS, MIN_WORDS]

    def _free_name(self, document_id: str) -> str:
        """Its own id, unless a group that it began and left still has members."""
        name, number = document_id, 1
        while name in self._leaders:
            number += 1
            name = f"{document_id}~{number}"
        return name

    def _lead(self, group: str, own: Signature) -> None:
        self._leaders[group] = own
        for band in self._bands_of(own):
            self._bands[band].add(group)

    def _bands_of(self, own: Signature) -> list[bytes]:
        return [
            bytes([start]) + own[start : start + self._rows].tobytes()
            for start in range(0, PERMUTATIONS, self._rows)
        ]


def _version(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _rows_per_band(threshold: float) -> int:
    """The most rows with which a pair at the threshold still shares a band with probability 0.98.

    1 - (1 - t^r)^(128/r), Leskovec, Rajaraman, Ullman: Mining of Massive Datasets, 3.4.
    """
    for rows in (32, 16, 8, 4, 2):
        if 1 - (1 - threshold**rows) ** (PERMUTATIONS // rows) >= _WANTED_RECALL:
            return rows
    return 1
