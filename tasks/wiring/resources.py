"""What the tasks of one process work with; each part is made once, when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from chorale_client.client import MOST_CONNECTIONS
from chorale_client.connections.failover import follow_primary
from chorale_client.ledger import CallersLedger
from chorale_client.wire_names import QUEUE_BULK, QUEUE_FUSION
from redis import Redis

from config.declarations import Pipeline, StoreDeclaration
from config.home import check_home, known_redis_url
from config.model_declarations import DEFAULT_ENCODER, RerankerDeclaration
from config.settings import Settings, load_settings
from inference.backends import load_reranker
from inference.endpoints.language_models import TokenizerFile
from inference.model_files import ModelTrust
from inference.weight_files import file_sha256
from ledger.breakers import Breakers
from ledger.caches import NullCache, RedisCache
from ledger.redis import RedisLedger
from ledger.signing import Signer
from models.errors import BadIndex, NotConfigured, ServiceError, UnknownNamespace
from monitoring.counting import add_tokens
from records.rules.matching import PublishedRules
from tasks.branches.encoders import Encoder, Encoders
from tasks.branches.generators import Generators
from tasks.wiring.corpus import Corpus
from tasks.wiring.generations import Generations
from tasks.wiring.pipeline import BUILT_IN, load_pipeline, read_fitted

if TYPE_CHECKING:
    from fusion.confidence import Fitted
    from inference.protocol import Reranker
    from ingest.raw_documents import ReadLimits
    from ledger.caches import Cache
    from models.declarations.extensions import Kinds, Need
    from models.documents import Manifest
    from records.jobs.store import Jobs
    from search.documents.store import DocumentStore
    from search.protocol import Engine, Searches


class Resources(Corpus):
    """Thread-safe."""

    def __init__(self, settings: Settings, pipeline: Pipeline, redis_url: str) -> None:
        super().__init__(settings, pipeline)
        self.redis_url = redis_url
        self.answered_kinds: Collection[str] = {branch.kind for branch in pipeline.branches}
        """The kinds of the branches that this process answers; a worker sets them to those of its queues."""
        self.answers_jobs = False
        """Whether this process answers bulk jobs, which have all cores while nobody asks."""
        self.worker_name: str | None = None
        """The name under which Flower counts what this process answers; None: no worker, or no task events."""
        self._stores: dict[str, Searches] = {}
        self._rerankers: dict[str, Reranker] = {}
        self._lock = threading.RLock()

    @classmethod
    def from_environment(cls, kinds: Kinds = BUILT_IN) -> Resources:
        """Raises WrongDeclaration if settings or pipeline are wrong, or no Redis is known."""
        settings = load_settings()
        check_home(settings.home)
        redis_url = known_redis_url(settings.redis_url, settings.home)
        resources = cls(settings, load_pipeline(settings.pipeline_file, kinds), redis_url)
        _ = resources.fitted  # a wrong file is refused now, not at the first answer
        return resources

    @cached_property
    def redis(self) -> Redis:
        client = Redis.from_url(
            self.redis_url,
            socket_timeout=self.settings.redis_socket_timeout_s,
            socket_connect_timeout=self.settings.redis_connect_timeout_s,
            max_connections=MOST_CONNECTIONS,
        )
        follow_primary(client.connection_pool)
        return client

    @cached_property
    def ledger(self) -> RedisLedger:
        queues = {branch.name: branch.queue for branch in self.pipeline.branches}
        return RedisLedger(self.redis, signer=self.signer, queues=queues)

    @cached_property
    def signer(self) -> Signer:
        return Signer(self.redis, self.settings.signing_keys)

    @cached_property
    def callers_ledger(self) -> CallersLedger:
        return CallersLedger(self.redis, answer_ttl_s=self.settings.answer_ttl_s)

    @cached_property
    def breakers(self) -> Breakers:
        settings = self.settings
        return Breakers(self.redis, failures=settings.breaker_failures, open_s=settings.breaker_open_s)

    @cached_property
    def jobs(self) -> Jobs:
        """The bulk jobs; their database is the audit trail's."""
        from records.jobs.store import Jobs  # SQLAlchemy takes .8 s to import

        return Jobs(self.settings.audit_database_url)

    @cached_property
    def answers(self) -> Cache:
        return RedisCache(self.redis) if self.settings.cache_ttl_s else NullCache()

    @cached_property
    def encoders(self) -> Encoders:
        return Encoders(self.pipeline.encoders, self)

    @property
    def encoder(self) -> Encoder:
        """The encoder of a namespace that names none."""
        return self.encoders[DEFAULT_ENCODER]

    def trust(self, revision: str | None) -> ModelTrust:
        settings = self.settings
        return ModelTrust(revision, settings.home / "model_hashes", settings.pickled_weights)

    def tokens_counter(self, role: str, name: str) -> Callable[[int], None]:
        """Adds the tokens that an endpoint reports to the metrics."""
        return partial(add_tokens, self.redis, role, name)

    @cached_property
    def count_tokens(self) -> Callable[[str], int]:
        """The number of tokens of a text for a language model.  A call raises ModelMissing."""
        file = self._context_tokenizer
        return file.count if file else self.encoder.embedder.count_pieces

    @property
    def _context_tokenizer(self) -> TokenizerFile | None:
        path = self.settings.context_tokenizer
        return TokenizerFile(path) if path else None

    @cached_property
    def generators(self) -> Generators:
        return Generators(
            self.pipeline,
            language=self.settings.language or "en",
            shared=RedisCache(self.redis),
            tokens_counter=partial(self.tokens_counter, "generator"),
        )

    @property
    def needs(self) -> frozenset[Need]:
        """What the branches that this process answers use of it; warming loads it."""
        answered = [branch for branch in self.pipeline.branches if branch.kind in self.answered_kinds]
        return frozenset(need for branch in answered for need in self.pipeline.needs_of(branch))

    @property
    def searched_stores(self) -> set[str]:
        """The stores that branches name; a further store may be declared for a move."""
        return {*(branch.store for branch in self.pipeline.branches), *self.generators.feedback_stores}

    @property
    def threads_for_a_model(self) -> int:
        """Threads of each model except `onnx` rerankers: all these on a machine together have at most as many threads as it
        has cores, and so have those of its bulk workers."""
        embed = {"questions", "passages"}
        dense = [branch for branch in self.pipeline.branches if embed & self.pipeline.needs_of(branch)]
        queues = [branch.queue for branch in dense] + ([QUEUE_FUSION] if self.pipeline.rerankers else [])
        settings = self.settings
        if self.answers_jobs:
            return max(1, settings.model_threads // max(1, settings.processes(QUEUE_BULK)))
        processes = (
            settings.replicas if settings.layout == "replicas" else sum(map(settings.processes, queues))
        )
        return max(1, settings.model_threads // max(1, processes))

    def reranker(self, name: str) -> Reranker:
        """A declared reranker, created once; raises NotConfigured if there is none of that name."""
        with self._lock:
            if name not in self._rerankers:
                declared = self.pipeline.rerankers.get(name)
                if declared is None:
                    raise NotConfigured(
                        f"no reranker {name!r} here; there are: {', '.join(self.pipeline.rerankers)}"
                    )
                options = (
                    {**declared.client_options, "add_tokens": self.tokens_counter("reranker", name)}
                    if declared.url
                    else self._local_options(declared)
                )
                self._rerankers[name] = load_reranker(declared.model, backend=declared.backend, **options)
            return self._rerankers[name]

    def _local_options(self, declared: RerankerDeclaration) -> dict[str, Any]:
        # Each thread of `onnx` computes whole pairs, so more threads than cores cost little, and a lone request has all.
        has_all_cores = declared.backend == "onnx" and not self.answers_jobs
        return {
            "threads": self.settings.model_threads if has_all_cores else self.threads_for_a_model,
            "device": declared.device,
            "max_pieces": declared.max_pieces,
            "precision": declared.precision,
            "trust": self.trust(declared.revision),
        }

    def store(self, name: str) -> Searches:
        """A declared store, opened once; raises BadIndex if there is none of that name, NotConfigured if it does not open."""
        with self._lock:
            if name not in self._stores:
                declared = self.pipeline.stores.get(name)
                if declared is None:
                    raise BadIndex(f"no store {name!r} here; there are: {', '.join(self.pipeline.stores)}")
                self._stores[name] = self._open(declared)
            return self._stores[name]

    def serving(
        self, name: str, namespace: str, timeout_s: float = 10.0, generation: int | None = None
    ) -> Searches:
        """The store that serves a namespace for branches of the store `name`: another one after the namespace was moved.

        `generation`: the one that was read a moment ago.
        """
        from search.documents.reading import FromDocuments

        store = self.store(name)
        if not isinstance(store, FromDocuments):
            return store
        return self.store(store.documents.serving(namespace, timeout_s, generation))

    def _open(self, declared: StoreDeclaration) -> Searches:
        kind = self.pipeline.kinds.stores[declared.kind]
        extras: dict[str, Any] = {"home": self.settings.home, "needs": self.needs} if kind.in_home else {}
        if kind.documents_of is not None:
            extras = {"documents": self.store(declared.options[kind.documents_of]), "needs": self.needs}
        try:
            store = kind.open(declared.name, declared.options, **extras)
        except ServiceError:
            raise
        except Exception as error:  # foreign code may raise anything
            message = f"the store {declared.name!r} cannot be opened: {type(error).__name__}: {error}"
            raise NotConfigured(message) from error
        from search.documents.reading import DocumentReader, FromDocuments

        if isinstance(store, FromDocuments):
            store.reader = DocumentReader(self.documents, declared.name)
        return cast("Searches", store)

    @property
    def read_limits(self) -> ReadLimits:
        from ingest.raw_documents import ReadLimits

        settings = self.settings
        return ReadLimits(settings.read_time_s, settings.read_memory_mb, settings.read_output_mb)

    def manifest(self, namespace: str, timeout_s: float) -> Manifest | None:
        """How the namespace was built; None if it has no documents.  Raises BadIndex, StoreUnavailable, StoreTimeout."""
        from search.documents.reading import DocumentReader

        if not self.written_stores:
            return None
        try:
            return (
                DocumentReader(self.documents, self.written_stores[0]).visible(namespace, timeout_s).manifest
            )
        except UnknownNamespace:
            return None

    @cached_property
    def writing_store(self) -> DocumentStore:
        """All stores that documents are indexed into, as one; raises BadIndex if there is none."""
        # SQLAlchemy takes .8 s to import.
        from search.documents.store import DocumentStore

        table = self.documents.table
        return DocumentStore({name: cast("Engine", self.store(name)) for name in self.written_stores}, table)

    @cached_property
    def rules(self) -> PublishedRules:
        return PublishedRules(self.redis)

    @cached_property
    def generations(self) -> Generations:
        return Generations(
            self.redis,
            lambda: self.documents,
            is_in_file=self.is_on_one_machine,
            has_documents=bool(self.written_stores),
            others_write=bool(self.settings.cells),
        )

    @cached_property
    def fitted(self) -> tuple[Fitted, ...]:
        """The factors for the confidence of an answer.  Raises WrongDeclaration."""
        return read_fitted(self.settings.confidence_file)

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of each model that answers depend on, by the model's role."""
        embedder = self.encoder.embedder
        fingerprints = {"embedder": embedder.fingerprint}
        if embedder.questions.fingerprint != embedder.fingerprint:
            fingerprints["questions"] = embedder.questions.fingerprint
        if file := self.settings.confidence_file:
            fingerprints["confidence"] = file_sha256(file)
        if tokenizer := self._context_tokenizer:
            fingerprints["tokenizer"] = tokenizer.fingerprint
        if stores := self.generators.feedback_stores:
            settings = self.settings
            options = (settings.feedback_alpha, settings.feedback_passages, *stores)
            fingerprints["feedback"] = " ".join(map(str, options))
        return fingerprints | self.generators.fingerprints
