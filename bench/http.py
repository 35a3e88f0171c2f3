"""The same questions over HTTP and through the thin client: what a web application pays for each."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from http.client import HTTPConnection
from typing import Any

from chorale_client import Chorale
from chorale_client.answer import Answer

from bench.latency import Variant, wait_for_audit
from bench.timing import Hung, complete
from bench.variants import SWEEPER, TIMEOUT_S
from models.errors import ServiceError
from wiring.resources import Resources

SERVER = "http"


class HttpPath:
    """Asks `POST /v1/searches`.  Threads may share it; each keeps a connection of its own."""

    def __init__(self, port: int, key: str, options: Mapping[str, Any]) -> None:
        self._port, self._options = port, options
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._local = threading.local()

    def ask(self, text: str) -> Answer:
        """Raises Hung if the answer is not complete."""
        if not hasattr(self._local, "connection"):
            self._local.connection = HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_S + 5)
        connection: HTTPConnection = self._local.connection
        body = json.dumps({"questions": [text], **self._options})
        connection.request("POST", "/v1/searches", body, self._headers)
        response = connection.getresponse()
        raw = response.read()
        if response.status not in (200, 503):
            raise ServiceError(f"the API answers {response.status}: {raw[:500].decode()}")
        if response.status != 200:
            raise Hung(f"{text!r}: {raw[:500].decode()}")
        return complete(text, Answer.from_wire(raw))


class ClientPath:
    """Asks through the thin client, which sends `chorale.retrieve`."""

    def __init__(self, redis_url: str, options: Mapping[str, Any]) -> None:
        self._chorale, self._options = Chorale(redis_url), options

    def ask(self, text: str) -> Answer:
        """Raises Hung if the answer is not complete."""
        return complete(text, self._chorale.retrieve(text, **self._options))


def make_variants(
    resources: Resources, options: Mapping[str, Any], workers: Sequence[str], *, port: int, key: str
) -> list[Variant]:
    """`options` go with every request; `workers` are the processes that answer."""
    options = {**options, "timeout_s": TIMEOUT_S, "rerank": "off", "cache": "bypass"}
    running = (*workers, SWEEPER)

    settle = partial(wait_for_audit, resources.redis)
    return [
        Variant("client", ClientPath(resources.redis_url, options).ask, running, settle=settle),
        Variant("http", HttpPath(port, key, options).ask, (*running, SERVER), settle=settle),
    ]
