"""Which documents are near-duplicates of each other, by MinHash signatures (Broder 1997) over shingles of three words.

The groups are kept beside the documents, by the store.  The library datasketch does the same, but importing it takes 1.8 to 2.4 s
(it imports scipy), this module 2 ms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from hashlib import blake2b
from itertools import islice
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ingest.same_statements import coded, hash_of, hashed, say_the_same, titles_agree, words_of
from models.batching import in_batches
from models.documents import NearDuplicateGroup, Signature

PERMUTATIONS = 128
"""The standard error of a similarity of .6 is sqrt(.6 x .4 / 128) = .043."""
SHINGLE_WORDS = 3
"""A changed word changes three shingles.  Their words have no order, so two words that change places change two."""
MIN_WORDS = 20
"""Shorter texts have no near-duplicates: a single word changes them too much."""
LONG_WORDS = 80
"""Texts with fewer words are short: there, a few other words often are another statement."""

_BLOCK = 4096
_WORD = re.compile(r"\w+")


def _odd_numbers(salt: bytes, count: int) -> NDArray[np.uint64]:
    raw = b"".join(blake2b(salt + i.to_bytes(4, "big"), digest_size=8).digest() for i in range(count))
    return np.frombuffer(raw, "<u8").astype(np.uint64) | np.uint64(1)


# Multiply-shift (Dietzfelbinger et al. 1997): the upper 32 bits of a x + b mod 2^64, with odd a.
_FACTORS = _odd_numbers(b"factor", PERMUTATIONS)
_ADDENDS = _odd_numbers(b"addend", PERMUTATIONS)


def signature(text: str, title: str = "") -> Signature | None:
    """The signature of a text, equal on every machine; None for a text of less than MIN_WORDS words.

    The share of equal places in two signatures estimates the Jaccard similarity of their shingles.  PERMUTATIONS places stand for
    the shingles; after them are the number of the title's words, these words, and the words of the text (`ingest.same_statements`).
    """
    words = words_of(text)
    if len(words) < MIN_WORDS:
        return None
    hashes = np.array([hash_of(word, 8) for word in words], np.uint64)
    shingles = np.unique(_shingles(hashes, SHINGLE_WORDS))
    lowest = np.full(PERMUTATIONS, np.iinfo(np.uint32).max, np.uint32)
    for start in range(0, len(shingles), _BLOCK):
        mixed = shingles[start : start + _BLOCK, None] * _FACTORS
        mixed += _ADDENDS
        lowest = np.minimum(lowest, (mixed.min(axis=0) >> np.uint64(32)).astype(np.uint32))
    named = hashed(words_of(title))
    return np.concatenate([lowest, np.array([len(named)], np.uint32), named, coded(text)])


def _shingles(words: NDArray[np.uint64], size: int) -> NDArray[np.uint64]:
    windows = np.lib.stride_tricks.sliding_window_view(words, size)
    return _mixed(windows.sum(axis=1, dtype=np.uint64))


def _mixed(sums: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits in place: sums keep patterns of their terms (the finalizer of MurmurHash3)."""
    sums ^= sums >> np.uint64(33)
    sums *= np.uint64(0xFF51AFD7ED558CCD)
    sums ^= sums >> np.uint64(33)
    return sums


def is_short(text: str) -> bool:
    return sum(1 for _ in islice(_WORD.finditer(text), LONG_WORDS)) < LONG_WORDS


def similarities(own: Signature, others: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Estimated Jaccard similarity of a text's shingles to those of other texts, 0 to 1; `others` has a row for each."""
    equal: NDArray[np.int64] = np.count_nonzero(others[:, :PERMUTATIONS] == own[:PERMUTATIONS], axis=1)
    return equal / PERMUTATIONS


def are_copies(first: Signature, second: Signature) -> bool:
    """Whether titles and statements of two similar texts agree."""
    (title, text), (other_title, other_text) = map(_title_and_text, (first, second))
    short = min(len(text), len(other_text)) < LONG_WORDS
    return titles_agree(title, other_title) and say_the_same(text, other_text, is_short=short)


def _title_and_text(own: Signature) -> tuple[Signature, Signature]:
    begins = PERMUTATIONS + 1 + int(own[PERMUTATIONS])
    return own[PERMUTATIONS + 1 : begins], own[begins:]


_FORMAT = 5
_WANTED_RECALL = 0.98
SHORT_THRESHOLD = 0.85
"""The least threshold for short texts."""
_COMPARED = 16
"""The maximum number of similar groups with which a text is compared.  A collection of filled-in forms has many."""
_AT_ONCE = 64
"""Documents whose groups are read and written together; databases limit the values in a statement."""


class StoredGroups(Protocol):
    """The groups of one namespace within a transaction, as `search.near_duplicate_rows` has them."""

    def forget_other_settings(self, settings: str) -> None: ...

    def groups(
        self, names: Collection[str], numbers: Collection[int], bands: Collection[int]
    ) -> Mapping[int, tuple[str, Signature, int]]: ...

    def members(self, document_ids: Collection[str]) -> dict[str, int]: ...

    def has(self, name: str) -> bool: ...

    def next_id(self) -> int: ...

    def insert(self, begun: Sequence[NearDuplicateGroup]) -> None: ...

    def delete(self, ended: Sequence[NearDuplicateGroup]) -> None: ...

    def count(self, changed: Sequence[NearDuplicateGroup]) -> None: ...

    def move(self, before: Mapping[str, int], after: Mapping[str, int]) -> None: ...


Notes = Callable[[], AbstractContextManager[StoredGroups]]
"""Opens a transaction; nobody else writes the namespace until it ends."""


class NearDuplicates:
    """Gives each document the group of the first text that it is a near-duplicate of.

    A text is compared only with the first text of each group, so A ~ B and B ~ C do not put A and C together.
    Each call is one transaction; nothing stays in memory between two calls.
    """

    def __init__(self, notes: Notes, *, threshold: float = 0.6) -> None:
        """Groups made with another threshold are deleted at the first call."""
        if not 0.5 <= threshold <= 1:
            raise ValueError(f"threshold: {threshold}; allowed: 0.5 to 1")
        self._notes = notes
        self._threshold = threshold
        self._rows_per_band = _rows_per_band(threshold)

    def assign(
        self, texts: Mapping[str, str], titles: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, str | None]:
        """Group name by document id, None for the first document of a group; replaces what was stored before.

        A group is named after its first document, so two documents are near-duplicates of each other when
        `group or document_id` is equal.
        """
        signed = [(name, signature(text, titles.get(name, ""))) for name, text in texts.items()]
        groups: dict[str, str | None] = {}
        with self._rows() as rows:
            for part in in_batches(signed, _AT_ONCE):
                batch = _Batch(rows, part, self._bands_of)
                for document_id, own in part:
                    groups[document_id] = batch.assign(document_id, own, self._least(texts[document_id]))
                batch.write()
        return groups

    def forget(self, document_ids: Iterable[str]) -> None:
        """Take documents out of their groups; a group ends with its last member."""
        with self._rows() as rows:
            for part in in_batches(document_ids, _AT_ONCE):
                batch = _Batch(rows, [(name, None) for name in part], self._bands_of)
                for document_id in part:
                    batch.forget(document_id)
                batch.write()

    @contextmanager
    def _rows(self) -> Iterator[StoredGroups]:
        how = [_FORMAT, self._threshold, PERMUTATIONS, SHINGLE_WORDS, MIN_WORDS, LONG_WORDS, SHORT_THRESHOLD]
        settings = json.dumps(how)
        with self._notes() as rows:
            rows.forget_other_settings(settings)
            yield rows

    def _least(self, text: str) -> float:
        """The similarity with which a text joins a group."""
        return max(self._threshold, SHORT_THRESHOLD) if is_short(text) else self._threshold

    def _bands_of(self, own: Signature) -> frozenset[int]:
        rows = own[:PERMUTATIONS].reshape(-1, self._rows_per_band)
        sums = (rows * _FACTORS[: self._rows_per_band]).sum(axis=1, dtype=np.uint64) + _ADDENDS[: len(rows)]
        return frozenset(_mixed(sums).view(np.int64).tolist())


class _Batch:
    """Some documents, the groups they are in, and the groups that share a band with one of them."""

    def __init__(
        self,
        rows: StoredGroups,
        signed: Sequence[tuple[str, Signature | None]],
        bands_of: Callable[[Signature], frozenset[int]],
    ) -> None:
        self._rows = rows
        self._own_bands = {document_id: bands_of(own) for document_id, own in signed if own is not None}
        all_bands = {band for bands in self._own_bands.values() for band in bands}
        names = [document_id for document_id, _ in signed]
        self._before = rows.members(names)
        loaded = [
            NearDuplicateGroup(group_id, name, own, bands_of(own), members)
            for group_id, (name, own, members) in sorted(
                rows.groups(names, self._before.values(), all_bands).items()
            )
        ]
        self._loaded = {group.group_id: (group, group.members) for group in loaded}
        self._group_of = {name: self._loaded[group_id][0] for name, group_id in self._before.items()}
        self._known_names = {*names, *(group.name for group in loaded)}
        self._named: dict[str, NearDuplicateGroup] = {}
        self._groups: list[NearDuplicateGroup] = []
        """The rows of `_shingles`, older groups first."""
        self._shingles = np.empty((len(loaded) + len(signed), PERMUTATIONS), np.uint32)
        for group in loaded:
            self._add(group)

    def assign(self, document_id: str, own: Signature | None, least: float) -> str | None:
        self.forget(document_id)
        if own is None:
            return None
        bands = self._own_bands[document_id]
        similarity = similarities(own, self._shingles[: len(self._groups)])
        most_similar_first = np.argsort(-similarity, kind="stable")[: np.count_nonzero(similarity >= least)]
        similar = (self._groups[place] for place in most_similar_first)
        sharing = (group for group in similar if group.members and not group.bands.isdisjoint(bands))
        compared = islice(sharing, _COMPARED)
        group = next((group for group in compared if are_copies(own, group.signature)), None)
        if group is None:
            group = NearDuplicateGroup(self._rows.next_id(), self._free_name(document_id), own, bands, 0)
            self._add(group)
        self._group_of[document_id] = group
        group.members += 1
        return None if group.name == document_id else group.name

    def forget(self, document_id: str) -> None:
        group = self._group_of.pop(document_id, None)
        if group is None:
            return
        group.members -= 1
        if not group.members:
            del self._named[group.name]

    def write(self) -> None:
        loaded = self._loaded.values()
        ended = [group for group, _ in loaded if not group.members]
        begun = [group for group in self._named.values() if group.group_id not in self._loaded]
        self._rows.delete(ended)
        self._rows.insert(begun)
        self._rows.count([group for group, members in loaded if group.members and group.members != members])
        after = {document_id: group.group_id for document_id, group in self._group_of.items()}
        self._rows.move(self._before, after)

    def _add(self, group: NearDuplicateGroup) -> None:
        self._named[group.name] = group
        self._shingles[len(self._groups)] = group.signature[:PERMUTATIONS]
        self._groups.append(group)

    def _free_name(self, document_id: str) -> str:
        """The document's own id, or a numbered one while a group of that name still has members."""
        name, number = document_id, 1
        while name in self._named or (name not in self._known_names and self._rows.has(name)):
            number += 1
            name = f"{document_id}~{number}"
        return name


def _rows_per_band(threshold: float) -> int:
    """The most rows with which a pair at the threshold still shares a band with probability 0.98.

    1 - (1 - t^r)^(128/r), Leskovec, Rajaraman, Ullman: Mining of Massive Datasets, 3.4.
    """
    for rows in (32, 16, 8, 4, 2):
        if 1 - (1 - threshold**rows) ** (PERMUTATIONS // rows) >= _WANTED_RECALL:
            return rows
    return 1
