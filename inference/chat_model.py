"""A language model behind an OpenAI-compatible chat endpoint: one text for each prompt, one time limit for all."""

from __future__ import annotations

import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import openai
from pydantic_core import from_json

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
_CONNECTED = frozenset({"connection.connect_tcp.complete", "connection.start_tls.complete"})
"""The events of `httpcore`'s `trace` that carry a new connection."""
_STREAMED = "X-Stainless-Raw-Response"
"""The OpenAI client recognises a streamed request by this header of its own."""


class ChatModel:
    """Thread-safe.  `url` is the endpoint up to and including `/v1`; its query is sent with each request.  `fields`
    replace our own fields in the body of each request.  The key never appears in errors or logs.

    Only the arguments decide what is sent, and where: `OPENAI_...` variables are ignored, and redirects are not
    followed.  The environment's proxies (`HTTPS_PROXY`, `NO_PROXY`) and certificates (`SSL_CERT_FILE`) apply.
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
        http = openai.DefaultHttpxClient(
            verify=httpx2.create_ssl_context(),
            follow_redirects=False,
            event_hooks={"request": [self._make_ours], "response": [_bound]},
        )
        parts = urlsplit(url)
        self._client = openai.OpenAI(
            base_url=parts._replace(query="").geturl(),
            default_query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            # Without this value the client would read a key from the environment.
            api_key=api_key or "none",
            max_retries=0,
            http_client=http,
        )
        # The client imports this at first use; do it now, not during the first question.
        self._stream = self._client.chat.completions.with_streaming_response
        self._where = f"{model} at {parts.netloc}"
        self._secret = api_key
        self._body: dict[str, Any] = {"temperature": temperature}
        if max_tokens:
            self._body["max_tokens"] = max_tokens
        self._body.update(fields or {})
        self._model = model
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._sockets_lock = threading.Lock()

    def complete(self, prompts: Sequence[str], *, timeout_s: float) -> list[str | StageFailure]:
        """The model's text for each prompt, or why there is none, within `timeout_s` seconds.  Raises nothing.

        At most `PARALLEL` prompts are in flight.  Temporary failures are retried within the time limit.
        """
        until_s = time.monotonic() + timeout_s
        jobs: list[Future[str | StageFailure | None]] = [Future() for _ in prompts]
        waiting = deque(zip(prompts, jobs, strict=True))

        def work() -> None:
            with suppress(IndexError):
                while True:
                    prompt, job = waiting.popleft()
                    job.set_result(self._ask(prompt, until_s))

        # Daemon threads for this call only: a hung thread delays neither a later call nor the end of the process.
        for _ in range(min(PARALLEL, len(prompts))):
            threading.Thread(target=work, name="chat", daemon=True).start()
        # A socket timeout does not stop an endpoint that sends a byte now and then, or a name server that hangs.
        wait(jobs, timeout=timeout_s)
        outcomes = [job.result() if job.done() else None for job in jobs]
        if None in outcomes:
            self._hang_up()
        late = StoreTimeout(f"{self._where}: no answer within {timeout_s:.2f} s")
        return [late if outcome is None else outcome for outcome in outcomes]

    def close(self) -> None:
        self._hang_up()
        self._client.close()

    def _hang_up(self) -> None:
        """End the reads of all connections.  The sockets are shut down and not closed: another connection could get a
        closed socket's file descriptor, and TLS would read from it."""
        with self._sockets_lock:
            sockets = list(self._sockets)
        for open_socket in sockets:
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)

    def _make_ours(self, request: httpx2.Request) -> None:
        """Replace the client's headers, which describe this machine and come partly from the environment."""
        headers = {
            "Host": request.url.netloc.decode("ascii"),
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "Content-Length": str(len(request.content)),
            "User-Agent": "chorale",
            _STREAMED: request.headers[_STREAMED],
        }
        if self._secret is not None:
            headers["Authorization"] = f"Bearer {self._secret}"
        request.headers = httpx2.Headers(headers)
        request.extensions = {**request.extensions, "trace": self._keep_socket}

    def _keep_socket(self, event: str, info: Mapping[str, Any]) -> None:
        if event in _CONNECTED:
            with self._sockets_lock:
                self._sockets.add(info["return_value"].get_extra_info("socket"))

    def _ask(self, prompt: str, until_s: float) -> str | StageFailure | None:
        """The model's text, or why there is none; None if the time is over."""
        for attempt in range(ATTEMPTS):
            try:
                return self._ask_once(prompt, until_s)
            except StageFailure as error:
                return error
            except (TimeoutError, openai.APITimeoutError, httpx2.TimeoutException):
                return None
            except openai.APIStatusError as error:
                failure: StageFailure = self._refusal(error)
                pause_s = _pause_s(error.response.headers, attempt)
                is_passing = error.status_code >= 500 or error.status_code in _PASSING
            except (openai.APIConnectionError, httpx2.HTTPError) as error:
                # The text of such an error may quote the header with the key.
                kind = type(error.__cause__ or error).__name__
                failure = StoreUnavailable(f"{self._where}: {kind}")
                pause_s, is_passing = _pause_s({}, attempt), True
            except Exception as error:  # the client may raise anything for a malformed answer
                return StageFailure(f"{self._where}: {type(error).__name__}")
            if not is_passing or attempt == ATTEMPTS - 1 or time.monotonic() + pause_s >= until_s:
                return failure
            time.sleep(pause_s)
        raise AssertionError("the last attempt returns")

    def _ask_once(self, prompt: str, until_s: float) -> str:
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        body = bytearray()
        with self._stream.create(
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
                    raise TimeoutError
        return self._text(bytes(body))[:MAX_TEXT_CHARS]

    def _text(self, body: bytes) -> str:
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

    def _refusal(self, error: openai.APIStatusError) -> StageFailure:
        where = f"{self._where}: HTTP {error.status_code}"
        if error.status_code in _MOVED:
            return NotConfigured(
                f"{where}: redirects are not followed; declare the url that this one leads to"
            )
        kind = _FAILURES.get(error.status_code, StoreUnavailable)
        message: object = None
        # An endpoint that refuses a key may quote part of it, so its message is not shown.
        if kind is NotConfigured or error.status_code in _TELLING:
            message = error.body
            if isinstance(message, Mapping):
                message = message.get("message") or message.get("detail")
        return kind(f"{where}: {self._without_secret(message or '')}".rstrip(": "))

    def _without_secret(self, message: object) -> str:
        """The endpoint's message without our key, cut to 200 characters."""
        text = str(message)
        # Remove the key before the cut, which could leave part of it.
        if self._secret:
            text = text.replace(self._secret, "***")
        return text[:200]


class _Beginning(httpx2.SyncByteStream):
    """The first MAX_ANSWER_BYTES of an answer."""

    def __init__(self, whole: httpx2.SyncByteStream) -> None:
        self._whole = whole

    def __iter__(self) -> Iterator[bytes]:
        left = MAX_ANSWER_BYTES
        for chunk in self._whole:
            yield chunk
            left -= len(chunk)
            if left <= 0:
                return

    def close(self) -> None:
        self._whole.close()


def _bound(response: httpx2.Response) -> None:
    """Limit the size of an error: the client itself reads an error's text to its end, and decompresses it."""
    if not response.is_success:
        assert isinstance(response.stream, httpx2.SyncByteStream)
        response.stream = _Beginning(response.stream)
        response.headers.pop("content-encoding", None)


def _pause_s(headers: Mapping[str, str], attempt: int) -> float:
    """The pause before the next attempt: the endpoint's Retry-After (RFC 9110), else twice as long each time."""
    retry_after = headers.get("retry-after", "")
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return float(FIRST_PAUSE_S * 2**attempt)
