"""The language models that the branches of this process ask; each is created when it is first needed."""

from __future__ import annotations

import threading

from branches.chat_endpoint import Endpoint
from cache.hypotheses import CachedTexts
from cache.memory import MemoryCache
from cache.protocol import Cache
from config.declarations import Pipeline

KEPT_HERE = 1_000


class Generators:
    """Thread-safe.  `shared` is the cache of all processes; `language` chooses the default prompt."""

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
        """Recent seconds to embed one written document; 0 before the first."""
        self._lock = threading.Lock()

    def options(self, branch: str) -> Endpoint | None:
        """The branch's options in this process's pipeline file; None if it cannot ask a model, or is not declared."""
        return self._options.get(branch)

    def of(self, branch: str) -> CachedTexts:
        """Raises NotConfigured if the key or the `openai` package is missing."""
        with self._lock:
            if branch not in self._made:
                self._made[branch] = self._make(branch)
            return self._made[branch]

    @property
    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of each model that is asked, by `generator:<branch>`; answers depend on it."""
        return {
            generator_name(name): options.fingerprint(options.prompt_text(self._language))
            for name, options in self._options.items()
            if options.asks_a_model
        }

    @property
    def feedback_stores(self) -> list[str]:
        """The store of the passages that replace written documents, for each branch that uses such passages."""
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
    """The name of a branch's language model in breakers and fingerprints; a branch's name has no colon."""
    return f"generator:{branch}"
