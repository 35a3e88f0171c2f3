"""A language model behind an OpenAI-compatible chat endpoint: one text for each prompt, one time limit for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inference.endpoints.json_endpoint import JsonEndpoint
from inference.endpoints.written_answers import without_thoughts
from models.errors import Declined, InvalidAnswer, StageFailure

MAX_ANSWER_BYTES = 1_000_000
MAX_TEXT_CHARS = 8_192
"""The limit of a caller's own hypothetical documents; longer texts are cut."""
PARALLEL = 64
"""Maximum number of prompts of one call in flight: four questions with 16 documents each, or one rewrite for each
question of the largest request."""


class ChatModel:
    """Thread-safe.  `url` is the endpoint up to and including `/v1`.  `fields` replace our own fields in the body of each
    request.  `add_tokens` is called with the tokens that the endpoint reports as used.
    """

    def __init__(
        self,
        *,
        url: str,
        model: str,
        api_key: str | None,
        temperature: float,
        max_tokens: int,
        fields: Mapping[str, Any] | None = None,
        add_tokens: Callable[[int], None] = lambda tokens: None,
    ) -> None:
        self._endpoint = JsonEndpoint(
            url=url,
            path="chat/completions",
            model=model,
            answer="chat completion",
            api_key=api_key,
            max_bytes=MAX_ANSWER_BYTES,
            includes_messages=True,
            add_tokens=add_tokens,
        )
        self._body: dict[str, Any] = {"model": model, "temperature": temperature}
        if max_tokens:
            self._body["max_tokens"] = max_tokens
        self._body.update(fields or {})

    def complete(self, prompts: Sequence[str], *, timeout_s: float) -> list[str | StageFailure]:
        """The model's text for each prompt, or why there is none, within `timeout_s` seconds.  Raises nothing.

        At most `PARALLEL` prompts are in flight.  Temporary failures are retried within the time limit.
        """
        bodies = [{"messages": [{"role": "user", "content": prompt}], **self._body} for prompt in prompts]
        return self._endpoint.each(bodies, self._text, timeout_s=timeout_s, parallel=PARALLEL)

    def _text(self, _: int, completion: Any) -> str:
        choice = completion["choices"][0]
        content, refusal = choice["message"]["content"], choice["message"].get("refusal")
        finished = choice.get("finish_reason")
        endpoint = self._endpoint
        if refusal or finished == "content_filter":
            why = endpoint.without_secret(refusal or finished)
            raise Declined(f"the question was declined: {why}")
        text = without_thoughts(content) if isinstance(content, str) else ""
        if text:
            return text[:MAX_TEXT_CHARS]
        what = "thoughts without an end" if text is None else "an empty text"
        if finished == "length":
            limit = self._body.get("max_tokens")
            what += f", cut at max_tokens {limit}" if limit else ", cut at the endpoint's own max_tokens"
            what += ": raise max_tokens, or lower the model's reasoning by `fields`"
        elif finished not in (None, "stop"):
            what += f" ({endpoint.without_secret(finished)})"
        raise InvalidAnswer(what)
