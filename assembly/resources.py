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

from assembly.packages import add_methods, open_store
from branches.language_models import Generators
from branches.needs import needs_of
from cache.null import NullCache
from cache.protocol import Cache
from cache.question_vectors import CachedQuestions
from cache.redis import RedisCache
from config.capabilities import capabilities
from config.embedded import EmbeddedOptions
from config.home_format import check_home
from config.local_redis import find_redis_url
from config.pipeline import Pipeline, StoreDeclaration, load_pipeline
from config.settings import Settings, load_settings
from inference.embedders import load_embedder
from inference.rerankers import load_reranker
from inference.two_precisions import TwoPrecisions
from ledger.breakers import Breakers
from ledger.redis import RedisLedger
from models.errors import BadIndex, NotConfigured, ServiceError, WrongDeclaration
from search.elasticsearch.opening import open_elasticsearch
from search.embedded.store import EmbeddedStore
from search.http.opening import open_http_source
from search.weaviate.opening import open_weaviate

if TYPE_CHECKING:
    from inference.protocol import Embedder, Reranker
    from models.extensions import Need
    from search.protocol import Searches, Store, WritingStore
    from search.several_stores.store import ClusteredStore

STORES: Mapping[str, Callable[[Settings, StoreDeclaration, Collection[Need]], Searches]] = {
    "embedded": lambda settings, declared, needs: EmbeddedStore(
        settings.home / EmbeddedOptions(**declared.options).folder,
        warm_text="text" in needs,
        warm_vectors="vectors" in needs,
    ),
    "elasticsearch": lambda _, declared, __: open_elasticsearch(declared.name, declared.options),
    "http": lambda _, declared, __: open_http_source(declared.name, declared.options),
    "weaviate": lambda _, declared, __: open_weaviate(declared.name, declared.options),
}
"""How a store is opened, by its kind; the third argument is Resources.needs."""


class Resources:
    """Thread-safe; nothing is opened before it is asked for."""

    def __init__(self, settings: Settings, pipeline: Pipeline, redis_url: str) -> None:
        self.settings = settings
        self.pipeline = pipeline
        self.redis_url = redis_url
        self.kinds: Collection[str] = {branch.kind for branch in pipeline.branches}
        """Kinds of the branches that this process answers."""
        self._stores: dict[str, Searches] = {}
        self._rerankers: dict[str, Reranker] = {}
        self._agreed: dict[str, int] = {}
        """The last generation of each namespace that Redis was seen to have right."""
        self._comparing = threading.Lock()
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
    def indexing_embedder(self) -> Embedder:
        """The passages' side alone.  One run at a time indexes, so it may have all cores, not one worker's share."""
        settings = self.settings
        return load_embedder(
            settings.embedder,
            backend=settings.embedder_backend,
            threads=settings.model_threads,
            device=settings.embedder_device,
            max_pieces=settings.passage_pieces,
            precision=settings.embedder_document_precision,
        )

    @cached_property
    def questions(self) -> CachedQuestions:
        """The embedder's questions, with this process's cache of their vectors in front of it."""
        return CachedQuestions(self.embedder.questions)

    @cached_property
    def generators(self) -> Generators:
        """The language models of the branches that ask one."""
        return Generators(self.pipeline, language=self.settings.language, shared=RedisCache(self.redis))

    @property
    def needs(self) -> frozenset[Need]:
        """What the branches that this process answers use of it: what is loaded when it is warmed."""
        return needs_of(self.kinds)

    @property
    def threads_for_a_model(self) -> int:
        """The threads of all model processes of this machine together are never more than its cores."""
        embed = {"questions", "passages"}
        dense = [branch for branch in self.pipeline.branches if not embed.isdisjoint(needs_of([branch.kind]))]
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
                    STORES[declared.kind](self.settings, declared, self.needs)
                    if declared.kind in STORES
                    else open_store(declared)
                )
            return self._stores[name]

    @property
    def written_stores(self) -> list[str]:
        """The names of the stores that documents are indexed into."""
        return [name for name in self.pipeline.stores if f"{name}:write" in self.capabilities]

    @property
    def has_document_table(self) -> bool:
        """Whether documents go into servers, or into several stores, beside which there is the table of documents."""
        return [self.pipeline.stores[name].kind for name in self.written_stores] not in ([], ["embedded"])

    @property
    def writing_store(self) -> WritingStore:
        """What documents are indexed into: all stores that can be written, as one; raises BadIndex.

        An embedded store alone is itself; servers, or several stores, have the table of documents beside them.
        """
        if self.has_document_table:
            return self.clustered
        if names := self.written_stores:
            return cast("WritingStore", self.store(names[0]))
        raise BadIndex(
            f"no store of the pipeline takes documents; there are: {', '.join(self.capabilities) or 'none'}; "
            "declare one of kind 'embedded', or of another kind that can be written"
        )

    @cached_property
    def clustered(self) -> ClusteredStore:
        """All stores that can be written, and the table of documents."""
        # SQLAlchemy takes .8 s to import, which processes that only search do without.
        from search.several_stores.database import Database
        from search.several_stores.document_table import DocumentTable
        from search.several_stores.store import ClusteredStore

        stores = {name: cast("Store", self.store(name)) for name in self.written_stores}
        return ClusteredStore(stores, DocumentTable(Database(self.settings.documents_database_url)))

    def generation(self, namespace: str) -> int | None:
        """The corpus generation as Redis has it; None where nobody copied it, or Redis does not answer."""
        try:
            found = cast("bytes | None", self.redis.get(GENERATION + namespace))
        except RedisError:
            return None
        return int(found) if found else None

    def generation_or_copy(self, namespace: str) -> int | None:
        """Like `generation`; None, so that nothing is cached, where the corpus here says otherwise.

        Redis may have been emptied or set back: it is told anew, for those who ask next.  A corpus that was restored
        may be older than what Redis has cached answers of: `rise_beyond` mends that.
        """
        told = self.generation(namespace)
        if told is not None:
            agreed = self._agreed.get(namespace)
            if told >= agreed if agreed is not None else not self._has_corpus:
                self._agreed[namespace] = told
                return told
        if self._has_corpus:
            return self._compared(namespace, told)
        # A database that is silent must hold no request up: it is for those who ask next.
        if self._comparing.acquire(blocking=False):
            threading.Thread(target=self._compared_aside, args=(namespace, told), daemon=True).start()
        return None

    def _compared_aside(self, namespace: str, told: int | None) -> None:
        try:
            self._compared(namespace, told)
        finally:
            self._comparing.release()

    def _compared(self, namespace: str, told: int | None) -> int | None:
        """The generation, where the corpus' own is the one that Redis `told`; else Redis is told."""
        with suppress(ServiceError, RedisError):
            # After Redis: a writer commits before it tells.
            own = self.writing_store.generation(namespace)
            if own == told:
                self._agreed[namespace] = own
                return own
            if told is None:
                # Never over that of a writer who was faster.
                self.redis.set(GENERATION + namespace, own, nx=True)
            else:
                self.publish_generation(namespace, own)
        return None

    @property
    def _has_corpus(self) -> bool:
        """Whether the one store is in a file: a server would be asked too long for a request that is being planned."""
        return bool(self.written_stores) and not self.has_document_table

    def rise_beyond(self, namespace: str) -> None:
        """Let a corpus that is older than what readers were told be newer, since they cached answers with that.

        Raises BadIndex, WriterBusy.
        """
        store, told = self.writing_store, self.generation(namespace)
        if told is not None and store.generation(namespace) < told:
            store.raise_generation(namespace, told + 1)

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
        if stores := self.generators.feedback_stores:
            settings = self.settings
            said = (settings.feedback_alpha, settings.feedback_passages, *stores)
            found["feedback"] = " ".join(map(str, said))
        return found | self.generators.fingerprints
