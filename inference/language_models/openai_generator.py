"""Hypothetical documents by a language model (HyDE, Gao et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence

from inference.language_models.chat_model import ChatModel
from inference.language_models.prompts import filled
from models.errors import StageFailure
from models.written_texts import SomeTexts, Written


class OpenAiGenerator:
    """Implements `HypothesisGenerator`: `documents` texts for each question, each from its own call.

    Many endpoints ignore the protocol's `n`; with separate calls, those that end in time are used.
    """

    def __init__(self, chat: ChatModel, *, prompt: str, documents: int) -> None:
        self._chat = chat
        self._prompt = prompt
        self._documents = documents

    def imagine(self, texts: Sequence[str], *, timeout_s: float) -> list[Written]:
        prompts = [filled(self._prompt, text) for text in texts for _ in range(self._documents)]
        written = self._chat.complete(prompts, timeout_s=timeout_s)
        return [
            _whatever_came(written[first : first + self._documents])
            for first in range(0, len(written), self._documents)
        ]


def _whatever_came(written: Sequence[str | StageFailure]) -> Written:
    documents = tuple(one for one in written if isinstance(one, str))
    first = next((one for one in written if isinstance(one, StageFailure)), None)
    if first is None:
        return documents
    if not documents:
        return first
    said = f"{len(documents)} of {len(written)} documents: {first.detail}"
    return SomeTexts(documents, type(first)(said))
