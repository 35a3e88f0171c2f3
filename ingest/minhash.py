"""MinHash signatures of texts (Broder 1997), over shingles of three words.

The library datasketch does the same, but importing it takes 1.8 to 2.4 s (it imports scipy), this module 2 ms.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ingest.hashes import normalised
from models.documents import Signature

PERMUTATIONS = 128
"""The standard error of a similarity of .6 is sqrt(.6 x .4 / 128) = .043."""
SHINGLE_WORDS = 3
"""A changed word changes three shingles."""
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
_PLACES = _odd_numbers(b"place", SHINGLE_WORDS)


def signature(text: str) -> Signature | None:
    """The signature of a text, equal on every machine; None for a text of less than MIN_WORDS words.

    The share of equal places in two signatures estimates the Jaccard similarity of their shingles.
    """
    words = _WORD.findall(normalised(text))
    if len(words) < MIN_WORDS:
        return None
    known = {
        word: int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little") for word in set(words)
    }
    hashes = np.array([known[word] for word in words], np.uint64)
    windows = np.lib.stride_tricks.sliding_window_view(hashes, SHINGLE_WORDS)
    shingles = np.unique((windows * _PLACES).sum(axis=1, dtype=np.uint64))
    # Mix the bits: sums keep patterns of their terms (the finalizer of MurmurHash3).
    shingles ^= shingles >> np.uint64(33)
    shingles *= np.uint64(0xFF51AFD7ED558CCD)
    shingles ^= shingles >> np.uint64(33)
    lowest = np.full(PERMUTATIONS, np.iinfo(np.uint32).max, np.uint32)
    for start in range(0, len(shingles), _BLOCK):
        mixed = (shingles[start : start + _BLOCK, None] * _FACTORS + _ADDENDS) >> np.uint64(32)
        lowest = np.minimum(lowest, mixed.min(axis=0).astype(np.uint32))
    return lowest


def is_short(text: str) -> bool:
    return sum(1 for _ in islice(_WORD.finditer(text), LONG_WORDS)) < LONG_WORDS


def similarity(one: Signature, other: Signature) -> float:
    """Estimated Jaccard similarity of the shingles, 0 to 1."""
    return float(np.count_nonzero(one == other)) / PERMUTATIONS
