"""A cache of the texts that a language model writes for questions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Protocol

from pydantic_core import from_json, to_json

from cache.answer_key import normalised_text
from cache.protocol import Cache
from cache.tiers import Tiers
from models.written_texts import Written

TTL_S = 604_800.0
"""A week: a hypothesis depends on the model, not on documents."""


class Write(Protocol):
    """A generator's `imagine`, an expander's `expand`."""

    def __call__(self, texts: Sequence[str], *, timeout_s: float) -> Sequence[Written]: ...


class CachedTexts:
    """Caches the texts of `write` by question and `fingerprint` (model, prompt and everything else that matters).

    Only results for which `is_whole` holds are stored, never failures or partial results.
    """

    def __init__(
        self,
        write: Write,
        *,
        fingerprint: str,
        caches: Sequence[Cache],
        is_whole: Callable[[tuple[str, ...]], bool],
        ttl_s: float = TTL_S,
    ) -> None:
        self._write = write
        self._fingerprint = fingerprint
        self._caches = Tiers(caches, ttl_s=ttl_s)
        self._is_whole = is_whole

    def known(self, texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Cached results by text."""
        key_of = {text: self._key(text) for text in texts}
        found = self._caches.get_many(list(dict.fromkeys(key_of.values())), self._read)
        return {text: found[key] for text, key in key_of.items() if key in found}

    def write(self, texts: Sequence[str], *, timeout_s: float, keep: bool = True) -> list[Written]:
        """Write new texts in one call; returns one result for each text, and caches whole results."""
        written = list(self._write(texts, timeout_s=timeout_s))
        if keep:
            self._caches.put_many(
                {
                    self._key(text): to_json(one)
                    for text, one in zip(texts, written, strict=True)
                    if isinstance(one, tuple) and self._is_whole(one)
                }
            )
        return written

    def _key(self, text: str) -> str:
        hashed = hashlib.sha256(normalised_text(text).encode("utf-8", "surrogatepass")).hexdigest()
        return f"hypothesis:{self._fingerprint}:{hashed}"

    def _read(self, value: bytes) -> tuple[str, ...] | None:
        try:
            found = from_json(value)
        except ValueError:
            return None
        is_texts = isinstance(found, list) and all(isinstance(one, str) for one in found)
        return tuple(found) if is_texts and self._is_whole(tuple(found)) else None
