"""The encoders of a process: each declared model that turns texts into vectors, loaded once, when it is first used."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from chorale_client.wire_names import NO_ENCODER

from config.model_declarations import DEFAULT_ENCODER, DeclaredEncoder, EncoderDeclaration, EndpointEncoder
from inference.backends import TwoPrecisions, load_embedder
from inference.known_models import known_prompts
from inference.question_vectors import CachedQuestions
from models.errors import NotConfigured

if TYPE_CHECKING:
    from config.settings import Settings
    from inference.model_files import ModelTrust
    from inference.protocol import Embedder


def default_encoder(settings: Settings) -> EncoderDeclaration:
    """The encoder that the settings describe; a table [encoders.default] takes its place."""
    return EncoderDeclaration(
        name=DEFAULT_ENCODER,
        kind=settings.embedder_backend,
        model=settings.embedder,
        revision=settings.embedder_revision,
        precision=settings.embedder_document_precision,
        question_precision=settings.embedder_question_precision,
        device=settings.embedder_device,
    )


@dataclass(frozen=True, slots=True)
class Encoder:
    """A declared model, as a process uses it."""

    name: str
    embedder: TwoPrecisions
    questions: CachedQuestions
    """The model for questions, behind this process's cache of vectors."""
    indexing: Embedder
    """The model for passages.  One run indexes at a time, so it has all cores, not one worker's share."""
    other_precisions: Sequence[Embedder] = ()
    """The model of `indexing` in its other precisions, whose vectors can be compared with its own."""
    is_endpoint: bool = False

    def indexing_as(self, fingerprint: str | None) -> Encoder:
        """The encoder for a namespace with these vectors: it indexes in their precision if they are of the same model."""
        if fingerprint in (None, self.indexing.fingerprint):
            return self
        same = (each for each in self.other_precisions if each.fingerprint == fingerprint)
        return replace(self, indexing=next(same, self.indexing))

    def check_local(self) -> None:
        """Raises NotConfigured if the encoder is behind an address, for a namespace that is `local_only`."""
        if self.is_endpoint:
            raise NotConfigured(
                f"the namespace is local_only, and the encoder {self.name!r} is behind an address: its texts would leave this machine"
            )


class Load(Protocol):
    """What loading a model depends on beside its declaration."""

    settings: Settings

    @property
    def threads_for_a_model(self) -> int: ...

    def trust(self, revision: str | None) -> ModelTrust: ...

    def tokens_counter(self, role: str, name: str) -> Callable[[int], None]: ...


class Encoders:
    """Thread-safe."""

    def __init__(self, declared: Mapping[str, DeclaredEncoder], load: Load) -> None:
        self.declared = {DEFAULT_ENCODER: default_encoder(load.settings), **declared}
        self._load = load
        self._made: dict[str, Encoder] = {}
        self._lock = threading.RLock()

    @property
    def endpoints(self) -> list[str]:
        """The names of the encoders behind an address."""
        return [name for name, declared in self.declared.items() if isinstance(declared, EndpointEncoder)]

    def __getitem__(self, name: str) -> Encoder:
        """Raises NotConfigured if no encoder of that name is declared."""
        with self._lock:
            if name not in self._made:
                if name not in self.declared:
                    raise NotConfigured(f"{NO_ENCODER}{name!r} here; there are: {', '.join(self.declared)}")
                self._made[name] = self._make(self.declared[name])
            return self._made[name]

    def _make(self, declared: DeclaredEncoder) -> Encoder:
        declared_prompts = (declared.question_prompt, declared.passage_prompt)
        puts_prompts = isinstance(declared, EndpointEncoder) and declared.api == "pinecone"
        known = (None, None) if puts_prompts else known_prompts(declared.model)
        question, passage = (
            own if own is not None else other for own, other in zip(declared_prompts, known, strict=True)
        )
        prompts = {"question_prompt": question, "passage_prompt": passage}
        if isinstance(declared, EndpointEncoder):
            options = {
                **declared.client_options,
                **{name: prompt or "" for name, prompt in prompts.items()},
                "add_tokens": self._load.tokens_counter("encoder", declared.name),
            }
            endpoint = load_embedder(declared.model, backend=declared.kind, **options)
            both = TwoPrecisions(lambda _precision: endpoint, questions="fp32", passages="fp32")
            return Encoder(declared.name, both, CachedQuestions(endpoint), endpoint, is_endpoint=True)
        settings, threads = self._load.settings, self._load.threads_for_a_model

        def load(precision: str, threads: int = settings.model_threads) -> Embedder:
            return load_embedder(
                declared.model,
                backend=declared.kind,
                threads=threads,
                device=declared.device,
                max_pieces=settings.passage_pieces,
                precision=precision,
                trust=self._load.trust(declared.revision),
                dimensions=declared.dimensions,
                **prompts,
            )

        both = TwoPrecisions(
            lambda precision: load(precision, threads),
            questions=declared.question_precision,
            passages=declared.precision,
        )
        others = {"fp32", "int8"} - {declared.precision} if declared.kind == "onnx" else set()
        return Encoder(
            declared.name,
            both,
            CachedQuestions(both.questions),
            load(declared.precision),
            [load(each) for each in others],
        )
