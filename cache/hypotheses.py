"""What a language model wrote for a question, kept so that the question asked again costs no model."""

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
"""A week: a hypothesis depends on the model alone, on no document."""


class Write(Protocol):
    """A generator's `imagine`, an expander's `expand`."""

    def __call__(self, texts: Sequence[str], *, timeout_s: float) -> Sequence[Written]: ...


class CachedTexts:
    """What `write` gave, by question and `fingerprint`: model, prompt and whatever else decides.

    `caches` are asked in order, the nearest first; one that is down is passed over.  Kept is only what `is_whole`
    says is all that was asked for, never a failure or a part.
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
        self._caches = tuple(caches)
        self._is_whole = is_whole
        self._ttl_s = ttl_s

    def known(self, texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """What the caches have, by text."""
        key_of = {text: self._key(text) for text in texts}
        found: dict[str, tuple[str, ...]] = {}
        for at, cache in enumerate(self._caches):
            if not (wanted := [text for text in key_of if text not in found]):
                break
            with suppress(CacheUnavailable):
                values = cache.get_many([key_of[text] for text in wanted])
                read = {text: _read(values.get(key_of[text])) for text in wanted}
                whole = {text: one for text, one in read.items() if one is not None and self._is_whole(one)}
                self._store(whole, self._caches[:at])
                found.update(whole)
        return found

    def write(self, texts: Sequence[str], *, timeout_s: float, keep: bool = True) -> list[Written]:
        """One for each text, written anew in one call; what came whole is kept."""
        written = list(self._write(texts, timeout_s=timeout_s))
        if keep:
            fresh = zip(texts, written, strict=True)
            self._store(
                {text: one for text, one in fresh if isinstance(one, tuple) and self._is_whole(one)},
                self._caches,
            )
        return written

    def _key(self, text: str) -> str:
        hashed = hashlib.sha256(normalised_text(text).encode("utf-8", "surrogatepass")).hexdigest()
        return f"hypothesis:{self._fingerprint}:{hashed}"

    def _store(self, written: dict[str, tuple[str, ...]], caches: Sequence[Cache]) -> None:
        values = {self._key(text): to_json(one) for text, one in written.items()}
        for cache in caches:
            with suppress(CacheUnavailable):
                cache.put_many(values, ttl_s=self._ttl_s)


def _read(value: bytes | None) -> tuple[str, ...] | None:
    """Anything but a list of texts under our key is as good as nothing."""
    if value is None:
        return None
    try:
        found = from_json(value)
    except ValueError:
        return None
    is_texts = isinstance(found, list) and all(isinstance(one, str) for one in found)
    return tuple(found) if is_texts else None
