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

from models.errors import ServiceError
from tasks.wiring.resources import Resources
from tests.bench.latency import wait_for_audit
from tests.bench.timing import Hung, Variant, complete
from tests.bench.variants import BESIDE_WORKERS, TIMEOUT_S

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
        if response.status == 503:
            raise Hung(f"{text!r}: {raw[:500].decode()}")
        if response.status != 200:
            raise ServiceError(f"the API answers {response.status}: {raw[:500].decode()}")
        return complete(text, Answer.from_wire(raw))


def make_variants(
    resources: Resources, options: Mapping[str, Any], workers: Sequence[str], *, port: int, key: str
) -> list[Variant]:
    """`options` go with every request; `workers` are the processes that answer."""
    options = {**options, "timeout_s": TIMEOUT_S, "rerank": "off", "cache": "bypass"}
    client, running = Chorale(resources.redis_url), (*workers, *BESIDE_WORKERS)
    settle = partial(wait_for_audit, resources.redis)

    def ask(text: str) -> Answer:
        return complete(text, client.retrieve(text, **options))

    return [
        Variant("client", ask, running, settle=settle),
        Variant("http", HttpPath(port, key, options).ask, (*running, SERVER), settle=settle),
    ]
