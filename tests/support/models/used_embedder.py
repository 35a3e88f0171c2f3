"""Puts an embedder of a test in the place of a process's default encoder."""

from __future__ import annotations

from config.model_declarations import DEFAULT_ENCODER
from inference.backends import TwoPrecisions
from inference.protocol import Embedder
from inference.question_vectors import CachedQuestions
from tasks.branches.encoders import Encoder
from tasks.wiring.resources import Resources


def use_embedder(resources: Resources, embedder: Embedder, name: str = DEFAULT_ENCODER) -> None:
    both = TwoPrecisions(lambda _precision: embedder, questions="fp32", passages="fp32")
    resources.encoders._made[name] = Encoder(name, both, CachedQuestions(embedder), embedder)
