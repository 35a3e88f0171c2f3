"""A language model behind an OpenAI-compatible chat endpoint: one text for each prompt, within one limit for all."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai
from pydantic_core import from_json

from models.errors import (
    InvalidAnswer,
    NotConfigured,
    StageFailure,
    StoreTimeout,
    StoreUnavailable,
    Unauthorised,
)

MAX_ANSWER_BYTES = 1_000_000
MAX_TEXT_CHARS = 8_192
"""As much as a caller may give of a hypothetical document; the rest of a text is cut off."""
PARALLEL = 8
"""Prompts that are out at the same time, of one process."""
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
"""By HTTP status; every other one is StoreUnavailable."""
_PASSING = frozenset({408, 409, 425, 429})
"""Worth another attempt, as is every status from 500 on."""
_THOUGHTS = re.compile(r"<think>.*?</think>", re.DOTALL)


class ChatModel:
    """Thread-safe.  `url` is the endpoint up to and with its `/v1`; `fields` stand in the body of each request in
    place of ours.  The key is shown nowhere.
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
        # Without a key of ours the client would send the one that it finds in the environment.
        self._client = openai.OpenAI(base_url=url, api_key=api_key or "none", max_retries=0)
        self._where = f"{model} at {urlsplit(url).netloc}"
        self._secret = api_key
        self._body: dict[str, Any] = {"temperature": temperature}
        if max_tokens:
            self._body["max_tokens"] = max_tokens
        self._body.update(fields or {})
        self._model = model
        self._pool = ThreadPoolExecutor(PARALLEL, thread_name_prefix="chat")

    def complete(self, prompts: Sequence[str], *, timeout_s: float) -> list[str | StageFailure]:
        """What the model writes for each prompt, or why it did not, after `timeout_s` seconds at the latest.

        Attempts are repeated within that time where it is worth it.  Nothing is raised.
        """
        until_s = time.monotonic() + timeout_s
        jobs = [self._pool.submit(self._ask, prompt, until_s) for prompt in prompts]
        # An endpoint that sends a byte now and then, or a name server that hangs, escapes every socket's timeout.
        wait(jobs, timeout=timeout_s)
        return [self._outcome(job, timeout_s) for job in jobs]

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def _outcome(self, job: Future[str | StageFailure], timeout_s: float) -> str | StageFailure:
        if job.cancel() or not job.done():
            return self._late(timeout_s)
        return job.result()

    def _late(self, timeout_s: float) -> StageFailure:
        return StoreTimeout(f"{self._where}: no answer within {timeout_s:.2f} s")

    def _ask(self, prompt: str, until_s: float) -> str | StageFailure:
        allowed_s = until_s - time.monotonic()
        for attempt in range(ATTEMPTS):
            try:
                return self._ask_once(prompt, until_s)
            except StageFailure as found:
                return found
            except openai.APITimeoutError:
                return self._late(allowed_s)
            except openai.APIStatusError as error:
                failure: StageFailure = self._refusal(error)
                pause_s = _pause_s(error.response.headers, attempt)
                is_passing = error.status_code >= 500 or error.status_code in _PASSING
            except (openai.APIConnectionError, httpx2.HTTPError) as error:
                # The text of such an error may quote a header, and so the key.
                kind = type(error.__cause__ or error).__name__
                failure = StoreUnavailable(f"{self._where}: {kind}")
                pause_s, is_passing = _pause_s({}, attempt), True
            except Exception as error:  # whatever a client makes of a strange endpoint
                return StageFailure(f"{self._where}: {type(error).__name__}")
            if not is_passing or attempt == ATTEMPTS - 1 or time.monotonic() + pause_s >= until_s:
                return failure
            time.sleep(pause_s)
        raise AssertionError("the last attempt returns")

    def _ask_once(self, prompt: str, until_s: float) -> str:
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise self._late(0)
        body = bytearray()
        with self._client.chat.completions.with_streaming_response.create(
            model=self._model,
            messages=[{"role": "user", "content": prompt}],
            extra_body=self._body,
            timeout=left_s,
        ) as response:
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    raise InvalidAnswer(f"{self._where}: more than {MAX_ANSWER_BYTES:,} bytes")
                if time.monotonic() > until_s:
                    raise self._late(left_s)
        try:
            content = from_json(bytes(body))["choices"][0]["message"]["content"]
        except (ValueError, LookupError, TypeError):
            raise InvalidAnswer(
                f"{self._where}: no chat completion in the {len(body):,} bytes of its answer"
            ) from None
        text = _THOUGHTS.sub("", content).strip() if isinstance(content, str) else ""
        if not text:
            raise InvalidAnswer(f"{self._where}: an empty text")
        return text[:MAX_TEXT_CHARS]

    def _refusal(self, error: openai.APIStatusError) -> StageFailure:
        kind = _FAILURES.get(error.status_code, StoreUnavailable)
        said = ""
        if kind is NotConfigured:
            body = error.body if isinstance(error.body, Mapping) else {}
            said = f": {str(body.get('message', ''))[:200]}"
            if self._secret:
                said = said.replace(self._secret, "***")
        return kind(f"{self._where}: HTTP {error.status_code}{said.rstrip(': ')}")


def _pause_s(headers: Mapping[str, str], attempt: int) -> float:
    """Before the next attempt: what the endpoint asks for (RFC 9110, Retry-After), else twice as long each time."""
    asked = headers.get("retry-after", "")
    try:
        return max(0.0, float(asked))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(asked).timestamp() - time.time())
    except (ValueError, OverflowError):
        return float(FIRST_PAUSE_S * 2**attempt)
