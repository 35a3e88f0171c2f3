"""The work of one branch for one request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from chorale_client.request import Question, Request, Variant
from chorale_client.wire_names import Stage, StageStatus

from config.model_declarations import DEFAULT_ENCODER
from fusion.rankings import LEXICAL, branch_texts, merged_dense, merged_lexical
from ledger.breaker_outcomes import encoder_name
from models.branch_result import Degradation, StageNote
from models.documents import Manifest, Matrix
from models.errors import BadIndex, StageFailure
from models.hits import QueryInputs, Ranking
from models.plan import BranchPlan, Plan
from search.filter_meanings import expanded_filters, forced_filters
from search.protocol import Described, Search
from search.ranking_end import COSINE_DECIMALS
from tasks.branches.model_breakers import ModelBreaker

if TYPE_CHECKING:
    from config.settings import Settings
    from ledger.breakers import Breakers
    from search.protocol import Searches
    from tasks.branches.encoders import Encoder, Encoders
    from tasks.branches.generators import Generators


REPORT_S = 0.05
"""Seconds that an encoder's endpoint leaves, so that the branch can still say that the encoder was late."""

Texts = Sequence[Mapping[str, float]]
"""For each question, the texts to search with their weights; empty for a question that is left out."""


class QuestionWithSynonyms(Question):
    """A question, and the words that BM25 searches too."""

    also: tuple[str, ...] = ()


def searched_questions(request: Request, plan: Plan) -> list[Question]:
    """The questions that the branches search."""
    return [
        QuestionWithSynonyms.model_construct(**dict(request.questions[index]), also=plan.rules[index].also)
        if index in plan.rules and plan.rules[index].also
        else request.questions[index]
        for index in plan.searched
    ]


class TaskResources(Protocol):
    """What a branch uses of its process; `tasks.wiring.resources.Resources` implements it."""

    settings: Settings

    @property
    def encoders(self) -> Encoders: ...

    @property
    def generators(self) -> Generators: ...

    @property
    def breakers(self) -> Breakers: ...

    def store(self, name: str) -> Searches:
        """Raises BadIndex if no store of that name is declared."""

    def manifest(self, namespace: str, timeout_s: float) -> Manifest | None:
        """How the namespace was built; None if it has no documents."""

    def serving(self, name: str, namespace: str, timeout_s: float, generation: int | None = None) -> Searches:
        """The store that serves the namespace for branches of the store `name`."""


@dataclass(slots=True)
class BranchTask:
    """The texts that a branch searches for, and its notes for the answer."""

    resources: TaskResources
    store: Searches
    branch: BranchPlan
    request: Request
    questions: Sequence[Question]
    ends_at_s: float
    """When the branch's time is over, by the monotonic clock."""
    begun_ms: float
    """When the branch began, counted from the acceptance of the request."""
    notes: list[StageNote] = field(default_factory=list)
    degraded: list[Degradation] = field(default_factory=list)
    """The missing parts of an answer that the branch gives all the same."""
    generation: int | None = None
    """The generation of `store`, read a moment ago."""
    known_encoder: Encoder | None = None
    manifest: Manifest | None = None
    """How the namespace was built, once `encoder` was read."""
    clock: Callable[[], float] = time.monotonic

    @property
    def remaining_s(self) -> float:
        return max(0.001, self.ends_at_s - self.clock())

    @property
    def encoder(self) -> Encoder:
        """The branch's encoder, else the namespace's first one; raises BadIndex, and NotConfigured if it is not declared here."""
        if self.known_encoder is None:
            if isinstance(self.store, Described):
                namespace, generation = self.request.namespace, self.generation
                self.manifest = self.store.manifest(
                    namespace, timeout_s=self.remaining_s, generation=generation
                )
                name = self.branch.encoder or self.manifest.encoder
                if name not in self.manifest.embedders:
                    raise BadIndex(
                        f"namespace {namespace!r} has no vectors of the encoder {name!r}; there are: "
                        f"{', '.join(self.manifest.embedders)}; `chorale namespaces rebuild {namespace}` embeds them"
                    )
                local_only = self.manifest.local_only
            else:
                name, local_only = self._encoder_for_a_source()
            encoder = self.resources.encoders[name]
            if local_only:
                encoder.check_local()
            self.known_encoder = encoder
        return self.known_encoder

    def _encoder_for_a_source(self) -> tuple[str, bool]:
        """The encoder of a source that knows no namespaces, and whether the namespace allows no encoder behind an address."""
        name = self.branch.encoder
        if name is not None and name not in self.resources.encoders.endpoints:
            return name, False
        manifest = self.resources.manifest(self.request.namespace, self.remaining_s)
        if manifest is None:
            return name or DEFAULT_ENCODER, False
        return name or manifest.encoder, manifest.local_only

    @property
    def is_local_only(self) -> bool:
        """Whether no text may be sent to a model behind an address; raises BadIndex."""
        return isinstance(self.store, Described) and (
            self.store.manifest(
                self.request.namespace, timeout_s=self.remaining_s, generation=self.generation
            ).local_only
        )

    @property
    def filters(self) -> dict[str, Any]:
        """The request's filters, by the meaning of their values."""
        return expanded_filters(self.request)

    @property
    def texts(self) -> list[str]:
        return [question.text for question in self.questions]

    def texts_of(self, kinds: frozenset[str], more: Sequence[Sequence[Variant]] = ()) -> Texts:
        """Each question's text and its variants of these kinds; `more` adds variants to each question."""
        return [
            branch_texts(
                _searched_text(question, kinds), [*question.variants, *(more[index] if more else ())], kinds
            )
            for index, question in enumerate(self.questions)
        ]

    def timed(
        self,
        stage: Stage,
        started_s: float,
        detail: str | None = None,
        status: StageStatus = StageStatus.OK,
    ) -> None:
        ms = (self.clock() - started_s) * 1000
        self.notes.append(StageNote(stage, status, ms, n_in=len(self.questions), detail=detail))

    def search(self, depth: int) -> Search:
        """The request's filters and limits for a store, with the remaining time."""
        forced = tuple(forced_filters(self.request))
        return Search(
            depth,
            self.filters,
            self.request.excluded_ids,
            self.remaining_s,
            self.generation,
            forced_fields=forced,
        )

    def vector_search(self, depth: int) -> Search:
        """The same, for vectors of the branch's encoder."""
        comparable = self.encoder.embedder.comparable
        if self._parts:
            assert self.manifest is not None
            comparable = (self.manifest.embedder,)  # `_embedded` has compared the part
        return replace(self.search(depth), embedders=comparable)

    @property
    def _parts(self) -> Mapping[str, Mapping[str, Any]]:
        """The parts of the namespace's vectors; empty if it has one encoder, whose vectors are whole."""
        _ = self.encoder  # reads the manifest
        return self.manifest.parts if self.manifest is not None else {}

    @property
    def _part(self) -> slice:
        part = self._parts[self.encoder.name]
        return slice(part["start"], part["end"])

    def own_part(self, vectors: Matrix) -> Matrix:
        """Vectors of passages with the part of the branch's encoder alone, of unit length."""
        if not self._parts:
            return vectors
        own = vectors * 0
        own[:, self._part] = vectors[:, self._part] * len(self._parts) ** 0.5
        return own

    def embed(self, texts: Texts) -> Matrix:
        """One row a text, in order."""
        started, flat, questions = self.clock(), _flat(texts), self.encoder.questions
        vectors = self._embedded(
            lambda timeout_s: questions.embed_questions(flat, timeout_s=timeout_s, ask=self._ask_encoder)
        )
        self.timed(Stage.EMBED, started)
        return vectors

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """Vectors of hypothetical documents, one row a text."""
        embedder = self.encoder.embedder
        return self._embedded(
            lambda timeout_s: self._ask_encoder(lambda: embedder.embed_passages(texts, timeout_s=timeout_s))
        )

    def breaker(self, name: str) -> ModelBreaker:
        return ModelBreaker(self.resources.breakers, name, self.request.request_id)

    def check_encoder(self) -> None:
        """Raises NotCalled if the encoder's breaker is open, before a language model writes what cannot be embedded."""
        if self.encoder.is_endpoint:
            self.breaker(encoder_name(self.encoder.name)).check()

    def _ask_encoder(self, call: Callable[[], Matrix]) -> Matrix:
        if not self.encoder.is_endpoint:
            return call()
        breaker = self.breaker(encoder_name(self.encoder.name))
        return breaker.ask(call, self.remaining_s, counts_failures=not self.branch.is_costly)

    def _embedded(self, embed: Callable[[float], Matrix]) -> Matrix:
        started, encoder = self.clock(), self.encoder
        try:
            vectors = embed(max(self.remaining_s - REPORT_S, self.remaining_s / 2))
        except StageFailure as failure:
            # This note distinguishes a failure of the encoder from one of the store, and one of an endpoint names its breaker.
            prefix = f"{encoder_name(encoder.name)} " if encoder.is_endpoint else ""
            self.timed(Stage.EMBED, started, f"{prefix}{failure.reason}", StageStatus.FAILED)
            raise
        if self.manifest is not None:
            from search.checks import check_encoder  # imports tantivy, which a planner does not need

            # Only a model that was loaded has a fingerprint that counts.
            own = replace(self.manifest, encoder=encoder.name, embedder=self.manifest.embedders[encoder.name])
            check_encoder(self.request.namespace, own, encoder.embedder.comparable)
            if self._parts:
                import numpy as np

                whole = np.zeros((len(vectors), self.manifest.dimension), np.float32)
                whole[:, self._part] = vectors
                return whole
        return vectors

    def search_text(self, texts: Texts, depth: int) -> list[Ranking]:
        """One ranking a question."""
        started = self.clock()
        rankings = self.rankings_by_text(texts, depth)
        self.timed(Stage.SEARCH, started)
        if not self.branch.returns_query_inputs:
            return rankings
        return [
            replace(ranking, query_inputs=QueryInputs(weights)) if len(weights) == 1 else ranking
            for ranking, weights in zip(rankings, texts, strict=True)
        ]

    def rankings_by_text(self, texts: Texts, depth: int, *, store: Searches | None = None) -> list[Ranking]:
        """Like `search_text`, without a note; `store` is searched in place of the branch's own."""
        flat, search = _flat(texts), self.search(depth)
        if store is not None and store is not self.store:
            search = replace(search, generation=None)
        rankings = iter(
            (store or self.store).search_text(self.request.namespace, flat, search) if flat else ()
        )
        return [
            merged_lexical(list(islice(rankings, len(weights))), list(weights.values()))
            if weights
            else Ranking()
            for weights in texts
        ]

    def search_vectors(self, vectors: Matrix, counts: Iterable[int]) -> list[Ranking]:
        """One ranking a question; `counts` has the number of rows of each question, 0 for one that is left out."""
        started = self.clock()
        rankings = iter(
            self.store.search_vectors(self.request.namespace, vectors, self.vector_search(self.branch.depth))
            if len(vectors)
            else ()
        )
        counts = list(counts)
        merged = [merged_dense(list(islice(rankings, count))) if count else Ranking() for count in counts]
        factor = len(self._parts) ** 0.5 or 1.0
        if self.manifest is not None and self._parts:
            is_first = self.encoder.name == self.manifest.encoder
            merged = [_with_part_cosines(ranking, factor, is_first=is_first) for ranking in merged]
        self.timed(Stage.SEARCH, started)
        if self.branch.returns_query_inputs:
            rows = iter(vectors * factor)
            merged = [
                replace(ranking, query_inputs=QueryInputs.by_vectors(list(islice(rows, count))))
                if count
                else ranking
                for ranking, count in zip(merged, counts, strict=True)
            ]
        return merged


def _with_part_cosines(ranking: Ranking, factor: float, *, is_first: bool) -> Ranking:
    """The ranking by the cosines of one of several encoders.  How many words are known was measured of the first one alone."""
    hits = tuple(hit._replace(score=round(hit.score * factor, COSINE_DECIMALS)) for hit in ranking.hits)
    return replace(ranking, hits=hits, known_words=ranking.known_words if is_first else None)


def _searched_text(question: Question, kinds: frozenset[str]) -> str:
    if kinds != LEXICAL or not isinstance(question, QuestionWithSynonyms):
        return question.text
    return " ".join((question.text, *question.also))


def _flat(texts: Texts) -> list[str]:
    return [text for weights in texts for text in weights]
