"""The language models that the branches of this process ask, each made when it is first needed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from branches.chat_endpoint import Endpoint
from cache.hypotheses import CachedTexts
from cache.memory import MemoryCache

if TYPE_CHECKING:
    from cache.protocol import Cache
    from config.declarations import Pipeline

KEPT_HERE = 1_000


class Generators:
    """Thread-safe.  `shared` is the cache of all processes; `language` chooses the prompt where none is declared."""

    def __init__(self, pipeline: Pipeline, *, language: str, shared: Cache) -> None:
        self._branches = {branch.name: branch for branch in pipeline.branches}
        self._kinds = {branch.name: pipeline.kinds.branches[branch.kind] for branch in pipeline.branches}
        self._options = {
            name: kind.options(**self._branches[name].options)
            for name, kind in self._kinds.items()
            if isinstance(kind.options, type) and issubclass(kind.options, Endpoint)
        }
        self._language = language
        self._shared = shared
        self._made: dict[str, CachedTexts] = {}
        self.document_s = 0.0
        """Seconds to embed a document that was written, lately; 0 before the first."""
        self._lock = threading.Lock()

    def options(self, branch: str) -> Endpoint | None:
        """What this process's own declaration says of the branch; None where it knows none, or none of that sort."""
        return self._options.get(branch)

    def of(self, branch: str) -> CachedTexts:
        """Raises NotConfigured: without its key, or without the `openai` package."""
        with self._lock:
            if branch not in self._made:
                self._made[branch] = self._make(branch)
            return self._made[branch]

    @property
    def fingerprints(self) -> dict[str, str]:
        """By `generator:<branch>`, of the branches that ask a model: what an answer depends on."""
        return {
            generator_name(name): options.fingerprint(options.prompt_text(self._language))
            for name, options in self._options.items()
            if options.asks_a_model
        }

    @property
    def feedback_stores(self) -> list[str]:
        """Where the passages come from that stand in for documents, of each branch that takes any."""
        stores = (
            options.feedback_from(self._branches[name].store) for name, options in self._options.items()
        )
        return [store for store in stores if store is not None]

    def _make(self, branch: str) -> CachedTexts:
        options, declared = self._options[branch], self._branches[branch]
        write, is_whole = options.open_writer(self._language, self._kinds[branch].variants)
        return CachedTexts(
            write,
            fingerprint=f"{declared.kind}:{options.fingerprint(options.prompt_text(self._language))}",
            caches=(MemoryCache(max_entries=KEPT_HERE), self._shared),
            is_whole=is_whole,
        )


def generator_name(branch: str) -> str:
    """A branch's language model among the breakers and the fingerprints; a branch's name has no colon."""
    return f"generator:{branch}"
