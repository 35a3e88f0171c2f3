"""Create the models that settings and pipeline name; each loads its files when it is first used or warmed."""

from __future__ import annotations

from config.declarations import RerankerDeclaration
from config.settings import Settings
from inference.embedding import embedders
from inference.embedding.two_precisions import TwoPrecisions
from inference.protocol import Embedder, Reranker
from inference.reranking import rerankers


def load_embedder(settings: Settings, precision: str, *, threads: int) -> Embedder:
    return embedders.load_embedder(
        settings.embedder,
        backend=settings.embedder_backend,
        threads=threads,
        device=settings.embedder_device,
        max_pieces=settings.passage_pieces,
        precision=precision,
    )


def load_embedders(settings: Settings, *, threads: int) -> TwoPrecisions:
    """The models for questions and for passages."""
    return TwoPrecisions.of(
        lambda precision: load_embedder(settings, precision, threads=threads),
        questions=settings.embedder_question_precision,
        passages=settings.embedder_document_precision,
    )


def load_reranker(declared: RerankerDeclaration, *, threads: int) -> Reranker:
    return rerankers.load_reranker(
        declared.model,
        backend=declared.backend,
        threads=threads,
        device=declared.device,
        max_pieces=declared.max_pieces,
    )
