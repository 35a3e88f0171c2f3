"""What the tasks of one process work with, made from its settings once and when first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, cast

from chorale_client.keys import GENERATION
from chorale_client.ledger import CallersLedger
from redis import Redis
from redis.exceptions import RedisError

from cache.null import NullCache
from cache.protocol import Cache
from cache.redis import RedisCache
from cache.vectors import CachedQuestions
from config.pipeline import Pipeline, StoreDeclaration, load_pipeline
from config.running_redis import find_redis_url
from config.settings import Settings, load_settings
from inference.embedders import load_embedder
from inference.two_precisions import TwoPrecisions
from ledger.redis import RedisLedger
from models.errors import BadIndex, WrongDeclaration
from search.embedded.store import EmbeddedStore

if TYPE_CHECKING:
    from inference.protocol import Embedder
    from search.protocol import Store

STORES: Mapping[str, Callable[[Settings, StoreDeclaration, Collection[str]], Store]] = {
    "embedded": lambda settings, _, kinds: EmbeddedStore(
        settings.corpus_dir,
        warm_text=not {"bm25", "hyde"}.isdisjoint(kinds),
        warm_vectors=not {"vector", "hyde"}.isdisjoint(kinds),
    ),
}
"""How a store is opened, by its kind; the third argument is Resources.kinds."""


class Resources:
    """Thread-safe; nothing is opened before it is asked for."""

    def __init__(self, settings: Settings, pipeline: Pipeline, redis_url: str) -> None:
        self.settings = settings
        self.pipeline = pipeline
        self.redis_url = redis_url
        self.kinds: Collection[str] = {branch.kind for branch in pipeline.branches}
        """Kinds of the branches that this process answers: what its stores load when they are warmed."""
        self._stores: dict[str, Store] = {}
        self._lock = threading.Lock()

    @classmethod
    def from_environment(cls) -> Resources:
        """Raises WrongDeclaration where settings or pipeline are wrong, or no Redis is known."""
        settings = load_settings()
        redis_url = settings.redis_url or find_redis_url(settings.home)
        if redis_url is None:
            raise WrongDeclaration(
                "no Redis is known: start `chorale up` in another terminal, or set CHORALE_REDIS_URL"
            )
        return cls(settings, load_pipeline(settings.pipeline_file), redis_url)

    @cached_property
    def redis(self) -> Redis:
        return Redis.from_url(
            self.redis_url,
            socket_timeout=self.settings.redis_socket_timeout_s,
            socket_connect_timeout=self.settings.redis_connect_timeout_s,
        )

    @cached_property
    def ledger(self) -> RedisLedger:
        return RedisLedger(self.redis)

    @cached_property
    def callers_ledger(self) -> CallersLedger:
        return CallersLedger(self.redis, answer_ttl_s=self.settings.answer_ttl_s)

    @cached_property
    def answers(self) -> Cache:
        """Answers of single questions."""
        return RedisCache(self.redis) if self.settings.cache_ttl_s else NullCache()

    @cached_property
    def embedder(self) -> TwoPrecisions:
        settings = self.settings

        def load(precision: str) -> Embedder:
            return load_embedder(
                settings.embedder,
                backend=settings.embedder_backend,
                threads=self.threads_for_a_model,
                device=settings.embedder_device,
                max_pieces=settings.passage_pieces,
                precision=precision,
            )

        return TwoPrecisions.of(
            load,
            questions=settings.embedder_question_precision,
            passages=settings.embedder_document_precision,
        )

    @cached_property
    def questions(self) -> CachedQuestions:
        """The embedder's questions, with this process's cache of their vectors in front of it."""
        return CachedQuestions(self.embedder.questions)

    @property
    def threads_for_a_model(self) -> int:
        """The threads of all model processes of this machine together are never more than its cores."""
        dense = [branch for branch in self.pipeline.branches if branch.kind in ("vector", "hyde")]
        processes = sum(self.settings.processes(branch.queue) for branch in dense)
        return max(1, self.settings.model_threads // max(1, processes))

    def store(self, name: str) -> Store:
        """A declared store, opened once; raises BadIndex where there is none of that name."""
        with self._lock:
            if name not in self._stores:
                declared = self.pipeline.stores.get(name)
                if declared is None:
                    raise BadIndex(f"no store {name!r} here; there are: {', '.join(self.pipeline.stores)}")
                self._stores[name] = STORES[declared.kind](self.settings, declared, self.kinds)
            return self._stores[name]

    @property
    def writing_store(self) -> Store:
        """The store that documents are indexed into."""
        return self.store(next(iter(self.pipeline.stores)))

    def generation(self, namespace: str) -> int | None:
        """The corpus generation as Redis has it; None where nobody copied it, or Redis does not answer."""
        try:
            found = cast("bytes | None", self.redis.get(GENERATION + namespace))
        except RedisError:
            return None
        return int(found) if found else None

    def publish_generation(self, namespace: str, generation: int) -> None:
        """Copy the generation, once every store shows it; an older one than Redis has is not copied."""
        if generation > (self.generation(namespace) or 0):
            self.redis.set(GENERATION + namespace, generation)

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """What the answers of this installation depend on, by what the model is for."""
        embedder = self.embedder
        found = {"embedder": embedder.fingerprint}
        if embedder.question_fingerprint != embedder.fingerprint:
            found["questions"] = embedder.question_fingerprint
        return found
