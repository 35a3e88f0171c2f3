"""The default model is loaded once for all pipelines and commands of a process, and for its forks, when this module is imported.

To load it takes most of the processor time in which a worker starts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from config.settings import Settings
from inference.embedders import OnnxEmbedder

NAME = Settings.model_fields["embedder"].default


def _made_once(make: Callable[[OnnxEmbedder], Any], key: Callable[[OnnxEmbedder], Hashable]) -> Any:
    """`make` for other models; for the default one, what it has made for the first embedder with this key."""
    made: dict[Hashable, Any] = {}

    def shared(embedder: OnnxEmbedder) -> Any:
        if embedder.name != NAME or embedder.trust.revision or embedder.device:
            return make(embedder)
        if key(embedder) not in made:
            # A fork would lack the threads of a session that has more of them.
            embedder.threads = 1
            made[key(embedder)] = make(embedder)
        return made[key(embedder)]

    return shared


def _description(embedder: OnnxEmbedder) -> Hashable:
    return embedder._declared_pieces, embedder._declared_prompts, embedder._declared_dimensions


OnnxEmbedder._load = _made_once(OnnxEmbedder._load, lambda embedder: embedder.precision)  # type: ignore[method-assign]
OnnxEmbedder._describe = _made_once(OnnxEmbedder._describe, _description)  # type: ignore[method-assign]
