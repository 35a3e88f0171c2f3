"""Rewrites of a question by a language model: keywords, a plain sentence, names."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_core import from_json

from inference.language_models.chat_model import ChatModel
from inference.language_models.prompts import EXPANSION_PROMPT, filled
from models.errors import InvalidAnswer, StageFailure

MAX_VARIANT_CHARS = 1_000


class OpenAiExpander:
    """Rewrites questions; one prompt for a question asks for all `kinds`: some of `keyword`, `semantic`, `entity`."""

    def __init__(self, chat: ChatModel, *, kinds: Sequence[str]) -> None:
        self.kinds = tuple(kinds)
        self._chat = chat

    def expand(self, texts: Sequence[str], *, timeout_s: float) -> list[tuple[str, ...] | StageFailure]:
        """For each question one text for each kind (`""` for none), or why it failed.  Raises nothing."""
        written = self._chat.complete([filled(EXPANSION_PROMPT, text) for text in texts], timeout_s=timeout_s)
        return [one if isinstance(one, StageFailure) else self._read(one) for one in written]

    def _read(self, written: str) -> tuple[str, ...] | StageFailure:
        # Models often put a code fence or a sentence around the JSON.
        try:
            found = from_json(written[written.index("{") : written.rindex("}") + 1])
        except ValueError:
            return InvalidAnswer("the expansion is no JSON object")
        variants = tuple(_plain(found.get(kind)) for kind in self.kinds)
        return variants if any(variants) else InvalidAnswer(f"no expansion of {', '.join(self.kinds)}")


def _plain(value: object) -> str:
    if isinstance(value, list):
        value = " ".join(one for one in value if isinstance(one, str))
    return " ".join(value.split())[:MAX_VARIANT_CHARS] if isinstance(value, str) else ""
