"""A language model behind an OpenAI-compatible chat endpoint: one text for each prompt, one time limit for all."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx2
from pydantic_core import from_json, to_json

from models.errors import (
    Declined,
    InvalidAnswer,
    NotConfigured,
    StageFailure,
    StoreTimeout,
    StoreUnavailable,
    Unauthorised,
)

MAX_ANSWER_BYTES = 1_000_000
MAX_TEXT_CHARS = 8_192
"""The limit of a caller's own hypothetical documents; longer texts are cut."""
PARALLEL = 64
"""Maximum number of prompts of one call in flight: four questions with 16 documents each, or one rewrite for each
question of the largest request."""
ATTEMPTS = 3
FIRST_PAUSE_S = 0.2

_FAILURES: Mapping[int, type[StageFailure]] = {
    400: NotConfigured,
    401: Unauthorised,
    403: Unauthorised,
    404: NotConfigured,
    408: StoreTimeout,
    422: NotConfigured,
}
"""The failure for each HTTP status; all other statuses become StoreUnavailable."""
_PASSING = frozenset({408, 409, 425, 429})
"""Statuses that are retried, as are those from 500 on."""
_TELLING = frozenset({402, 429})
"""Statuses whose message is shown: it says whether to wait or to pay."""
_MOVED = range(300, 400)


class ChatModel:
    """Thread-safe.  `url` is the endpoint up to and including `/v1`; its query is sent with each request.  `fields`
    replace our own fields in the body of each request.  The key never appears in errors or logs.

    Redirects are not followed.  The environment's proxies (`HTTPS_PROXY`, `NO_PROXY`) and certificates (`SSL_CERT_FILE`)
    apply.
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
    ) -> None:
        parts = urlsplit(url)
        self._url = parts._replace(path=f"{parts.path.rstrip('/')}/chat/completions").geturl()
        self._where = f"{model} at {parts.netloc}"
        self._secret = api_key
        self._body: dict[str, Any] = {"model": model, "temperature": temperature}
        if max_tokens:
            self._body["max_tokens"] = max_tokens
        self._body.update(fields or {})
        self._certificates = httpx2.create_ssl_context()

    def complete(self, prompts: Sequence[str], *, timeout_s: float) -> list[str | StageFailure]:
        """The model's text for each prompt, or why there is none, within `timeout_s` seconds.  Raises nothing.

        At most `PARALLEL` prompts are in flight.  Temporary failures are retried within the time limit.
        """
        # Not `asyncio.run`, which would wait for a name server that hangs.
        loop = asyncio.new_event_loop()
        answers = loop.create_task(self._complete(prompts, timeout_s))
        try:
            return loop.run_until_complete(answers)
        finally:
            if not answers.done():  # a signal's exception ended the loop: the connections still close
                answers.cancel()
                with contextlib.suppress(BaseException):
                    loop.run_until_complete(answers)
            loop.close()

    async def _complete(self, prompts: Sequence[str], timeout_s: float) -> list[str | StageFailure]:
        limits = httpx2.Limits(max_connections=PARALLEL)
        until_s = asyncio.get_running_loop().time() + timeout_s

        async def ask(prompt: str) -> str | StageFailure:
            try:
                async with asyncio.timeout_at(until_s):
                    return await self._ask(client, prompt, until_s)
            except TimeoutError:
                return StoreTimeout(f"{self._where}: no answer within {timeout_s:.2f} s")

        async with httpx2.AsyncClient(verify=self._certificates, limits=limits, timeout=None) as client:
            return await asyncio.gather(*map(ask, prompts))

    async def _ask(self, client: httpx2.AsyncClient, prompt: str, until_s: float) -> str | StageFailure:
        for attempt in range(ATTEMPTS):
            pause_s = FIRST_PAUSE_S * 2**attempt
            try:
                response, body = await self._post(client, prompt)
                if response.is_success:
                    return self._text(body)[:MAX_TEXT_CHARS]
                failure = self._refusal(response.status_code, body)
                if response.status_code < 500 and response.status_code not in _PASSING:
                    return failure
                pause_s = _retry_after_s(response.headers.get("retry-after", ""), pause_s)
            except StageFailure as error:
                return error
            except httpx2.HTTPError as error:
                # The text of such an error may quote the header with the key.
                failure = StoreUnavailable(f"{self._where}: {type(error).__name__}")
            except Exception as error:  # a malformed answer may raise anything
                return StageFailure(f"{self._where}: {type(error).__name__}")
            if attempt == ATTEMPTS - 1 or asyncio.get_running_loop().time() + pause_s >= until_s:
                return failure
            await asyncio.sleep(pause_s)
        raise AssertionError("the last attempt returns")

    async def _post(self, client: httpx2.AsyncClient, prompt: str) -> tuple[httpx2.Response, bytes]:
        """The response, and its body up to a little over the limit."""
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "chorale"}
        if self._secret is not None:
            headers["Authorization"] = f"Bearer {self._secret}"
        content = to_json({"messages": [{"role": "user", "content": prompt}], **self._body})
        body = bytearray()
        async with client.stream("POST", self._url, headers=headers, content=content) as response:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    break
        return response, bytes(body)

    def _text(self, body: bytes) -> str:
        if len(body) > MAX_ANSWER_BYTES:
            raise InvalidAnswer(f"{self._where}: more than {MAX_ANSWER_BYTES:,} bytes")
        try:
            choice = from_json(body)["choices"][0]
            content, refusal = choice["message"]["content"], choice["message"].get("refusal")
            finished = choice.get("finish_reason")
        except (ValueError, LookupError, TypeError, AttributeError):
            raise InvalidAnswer(
                f"{self._where}: the answer of {len(body):,} bytes is no chat completion"
            ) from None
        if refusal or finished == "content_filter":
            raise Declined(
                f"{self._where}: the question was declined: {self._without_secret(refusal or finished)}"
            )
        # Where the chat template opens <think>, the model writes only the closing tag.
        text = content.rpartition("</think>")[2].strip() if isinstance(content, str) else ""
        if text and "<think>" not in text:
            return text
        what = "thoughts without an end" if text else "an empty text"
        if finished == "length":
            limit = self._body.get("max_tokens")
            what += f", cut at max_tokens {limit}" if limit else ", cut at the endpoint's own max_tokens"
            what += ": raise max_tokens, or lower the model's reasoning by `fields`"
        elif finished not in (None, "stop"):
            what += f" ({self._without_secret(finished)})"
        raise InvalidAnswer(f"{self._where}: {what}")

    def _refusal(self, status: int, body: bytes) -> StageFailure:
        where = f"{self._where}: HTTP {status}"
        if status in _MOVED:
            return NotConfigured(
                f"{where}: redirects are not followed; declare the url that this one leads to"
            )
        kind = _FAILURES.get(status, StoreUnavailable)
        # An endpoint that refuses a key may quote part of it, so its message is not shown.
        shown = _message(body) if kind is NotConfigured or status in _TELLING else ""
        return kind(f"{where}: {self._without_secret(shown)}".rstrip(": "))

    def _without_secret(self, message: object) -> str:
        """The endpoint's message without our key, cut to 200 characters."""
        text = str(message)
        # Remove the key before the cut, which could leave part of it.
        if self._secret:
            text = text.replace(self._secret, "***")
        return text[:200]


def _message(body: bytes) -> object:
    """What the body of an error says, as most endpoints write it."""
    try:
        message = from_json(body)
    except ValueError:
        return ""
    for name in ("error", "message", "detail"):
        message = message.get(name, message) if isinstance(message, Mapping) else message
    return "" if isinstance(message, Mapping) else message


def _retry_after_s(retry_after: str, otherwise_s: float) -> float:
    """The pause that the endpoint's Retry-After (RFC 9110) names."""
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return otherwise_s
