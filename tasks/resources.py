"""What the tasks of one process work with, made from its settings once and when first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, cast

from chorale_client.keys import GENERATION
from chorale_client.ledger import CallersLedger
from chorale_client.words import QUEUE_FUSION
from redis import Redis
from redis.exceptions import RedisError

from cache.null import NullCache
from cache.protocol import Cache
from cache.redis import RedisCache
from cache.vectors import CachedQuestions
from config.capabilities import capabilities
from config.embedded import EmbeddedOptions
from config.home import check_home
from config.pipeline import Pipeline, StoreDeclaration, load_pipeline
from config.running_redis import find_redis_url
from config.settings import Settings, load_settings
from inference.embedders import load_embedder
from inference.rerankers import load_reranker
from inference.two_precisions import TwoPrecisions
from ledger.breakers import Breakers
from ledger.redis import RedisLedger
from models.errors import BadIndex, NotConfigured, ServiceError, WrongDeclaration
from search.embedded.store import EmbeddedStore
from tasks.elasticsearch import open_elasticsearch
from tasks.extensions import add_methods, open_store
from tasks.http_source import open_http_source
from tasks.weaviate import open_weaviate
from tasks.writers import Writers

if TYPE_CHECKING:
    from inference.protocol import Embedder, Reranker
    from search.clustered.store import ClusteredStore
    from search.protocol import Searches, Store

STORES: Mapping[str, Callable[[Settings, StoreDeclaration, Collection[str]], Searches]] = {
    "embedded": lambda settings, declared, kinds: EmbeddedStore(
        settings.home / EmbeddedOptions(**declared.options).folder,
        warm_text=not {"bm25", "hyde"}.isdisjoint(kinds),
        warm_vectors=not {"vector", "hyde"}.isdisjoint(kinds),
    ),
    "elasticsearch": lambda _, declared, __: open_elasticsearch(declared),
    "http": lambda _, declared, __: open_http_source(declared),
    "weaviate": lambda _, declared, __: open_weaviate(declared),
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
        self._stores: dict[str, Searches] = {}
        self._rerankers: dict[str, Reranker] = {}
        self._lock = threading.Lock()
        add_methods(pipeline)

    @classmethod
    def from_environment(cls) -> Resources:
        """Raises WrongDeclaration where settings or pipeline are wrong, or no Redis is known."""
        settings = load_settings()
        check_home(settings.home)
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
    def breakers(self) -> Breakers:
        settings = self.settings
        return Breakers(self.redis, failures=settings.breaker_failures, open_s=settings.breaker_open_s)

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

    @cached_property
    def writers(self) -> Writers:
        """The language models of the branches that ask one."""
        return Writers(self.pipeline, language=self.settings.language, shared=RedisCache(self.redis))

    @property
    def threads_for_a_model(self) -> int:
        """The threads of all model processes of this machine together are never more than its cores."""
        dense = [branch for branch in self.pipeline.branches if branch.kind in ("vector", "hyde", "hybrid")]
        queues = [branch.queue for branch in dense] + ([QUEUE_FUSION] if self.pipeline.rerankers else [])
        processes = sum(map(self.settings.processes, queues))
        return max(1, self.settings.model_threads // max(1, processes))

    def reranker(self, name: str) -> Reranker:
        """A declared reranker, one for the process; raises NotConfigured where there is none of that name."""
        with self._lock:
            if name not in self._rerankers:
                declared = self.pipeline.rerankers.get(name)
                if declared is None:
                    raise NotConfigured(
                        f"no reranker {name!r} here; there are: {', '.join(self.pipeline.rerankers)}"
                    )
                self._rerankers[name] = load_reranker(
                    declared.model,
                    backend=declared.backend,
                    threads=self.threads_for_a_model,
                    device=declared.device,
                    max_pieces=declared.max_pieces,
                )
            return self._rerankers[name]

    @cached_property
    def capabilities(self) -> tuple[str, ...]:
        """`<store>:read`, `<store>:write`, as declared."""
        return capabilities(self.pipeline, STORES)

    def store(self, name: str) -> Searches:
        """A declared store, opened once; raises BadIndex where there is none of that name."""
        with self._lock:
            if name not in self._stores:
                declared = self.pipeline.stores.get(name)
                if declared is None:
                    raise BadIndex(f"no store {name!r} here; there are: {', '.join(self.pipeline.stores)}")
                self._stores[name] = (
                    STORES[declared.kind](self.settings, declared, self.kinds)
                    if declared.kind in STORES
                    else open_store(declared)
                )
            return self._stores[name]

    @property
    def writing_store(self) -> Store:
        """What documents are indexed into: all stores that can be written, as one; raises BadIndex.

        An embedded store alone is itself; servers, or several stores, have the table of documents beside them.
        """
        names = [name for name in self.pipeline.stores if f"{name}:write" in self.capabilities]
        if [self.pipeline.stores[name].kind for name in names] == ["embedded"]:
            return cast("Store", self.store(names[0]))
        if names:
            return cast("Store", self.clustered)
        raise BadIndex(
            f"no store of the pipeline takes documents; there are: {', '.join(self.capabilities) or 'none'}; "
            "declare one of kind 'embedded', or of another kind that can be written"
        )

    @cached_property
    def clustered(self) -> ClusteredStore:
        """All stores that can be written, and the table of documents."""
        # SQLAlchemy takes .8 s to import, which processes that only search do without.
        from search.clustered.database import Database
        from search.clustered.store import ClusteredStore
        from search.clustered.table import DocumentTable

        names = [name for name in self.pipeline.stores if f"{name}:write" in self.capabilities]
        stores = {name: cast("Store", self.store(name)) for name in names}
        return ClusteredStore(stores, DocumentTable(Database(self.settings.documents_database_url)))

    def generation(self, namespace: str) -> int | None:
        """The corpus generation as Redis has it; None where nobody copied it, or Redis does not answer."""
        try:
            found = cast("bytes | None", self.redis.get(GENERATION + namespace))
        except RedisError:
            return None
        return int(found) if found else None

    def generation_or_copy(self, namespace: str) -> int | None:
        """Like `generation`; where Redis was emptied it is copied from the corpus again, for those who ask next."""
        found = self.generation(namespace)
        if found is None:
            with suppress(ServiceError, RedisError):
                copied = self.writing_store.generation(namespace)
                # Never over that of a writer who was faster.
                self.redis.set(GENERATION + namespace, copied, nx=True)
        return found

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
        return found | self.writers.fingerprints
