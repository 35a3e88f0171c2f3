"""A cache of the texts that a language model writes for questions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from pydantic_core import from_json, to_json

from cache.answer_key import normalised_text
from cache.protocol import Cache, CacheUnavailable
from models.written_texts import Written

TTL_S = 604_800.0
"""A week: a hypothesis depends on the model, not on documents."""


class Write(Protocol):
    """A generator's `imagine`, an expander's `expand`."""

    def __call__(self, texts: Sequence[str], *, timeout_s: float) -> Sequence[Written]: ...


class CachedTexts:
    """Caches the texts of `write` by question and `fingerprint` (model, prompt and everything else that matters).

    `caches` are asked in order, the nearest first; one that is down is skipped.  Only results for which `is_whole` holds
    are stored, never failures or partial results.
    """

    def __init__(
        self,
        write: Write,
        *,
        fingerprint: str,
        caches: Sequence[Cache],
        is_whole: Callable[[tuple[str, ...]], bool],
    ) -> None:
        self._write = write
        self._fingerprint = fingerprint
        self._caches = tuple(caches)
        self._is_whole = is_whole

    def known(self, texts: Sequence[str], owner: str | None = None) -> dict[str, tuple[str, ...]]:
        """Cached results by text.  Each owner has its own, since a quick answer would tell what others have asked."""
        key_of = {text: self._key(text, owner) for text in texts}
        found: dict[str, tuple[str, ...]] = {}
        for at, cache in enumerate(self._caches):
            if not (wanted := [text for text in key_of if text not in found]):
                break
            with suppress(CacheUnavailable):
                values = cache.get_many([key_of[text] for text in wanted])
                read = {text: _read(values.get(key_of[text])) for text in wanted}
                whole = {text: one for text, one in read.items() if one is not None and self._is_whole(one)}
                self._store({key_of[text]: one for text, one in whole.items()}, self._caches[:at])
                found.update(whole)
        return found

    def write(
        self, texts: Sequence[str], *, timeout_s: float, keep: bool = True, owner: str | None = None
    ) -> list[Written]:
        """Write new texts in one call; returns one result for each text, and caches whole results."""
        written = list(self._write(texts, timeout_s=timeout_s))
        if keep:
            fresh = zip(texts, written, strict=True)
            self._store(
                {
                    self._key(text, owner): one
                    for text, one in fresh
                    if isinstance(one, tuple) and self._is_whole(one)
                },
                self._caches,
            )
        return written

    def _key(self, text: str, owner: str | None) -> str:
        hashed = hashlib.sha256(normalised_text(text).encode("utf-8", "surrogatepass")).hexdigest()
        return f"hypothesis:{self._fingerprint}:{hashed}{'' if owner is None else f':{owner}'}"

    def _store(self, written: dict[str, tuple[str, ...]], caches: Sequence[Cache]) -> None:
        """`written` is by key."""
        values = {key: to_json(one) for key, one in written.items()}
        for cache in caches:
            with suppress(CacheUnavailable):
                cache.put_many(values, ttl_s=TTL_S)


def _read(value: bytes | None) -> tuple[str, ...] | None:
    """The cached texts; None for a missing or malformed value."""
    if value is None:
        return None
    try:
        found = from_json(value)
    except ValueError:
        return None
    is_texts = isinstance(found, list) and all(isinstance(one, str) for one in found)
    return tuple(found) if is_texts else None
