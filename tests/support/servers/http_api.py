"""The HTTP API of a running pipeline, with the console: the server of `chorale serve` in a thread of the test, on a free port."""

from __future__ import annotations

import faulthandler
import threading
import time
from collections.abc import Sequence
from typing import Any, Self

import httpx
from redis import Redis

from api.serving import Server
from config.settings import Settings
from console.site import create_site
from records.keys.grant import SCOPES, Grant
from records.keys.key_store import KeyStore

STOP_LIMIT_S = 60.0


class HttpApi:
    """A context manager; `settings` name the pipeline's Redis."""

    def __init__(self, settings: Settings, *, doctor: Sequence[str] | None = None) -> None:
        self.settings = settings
        self._server = Server(create_site(settings, doctor=doctor), settings, host="127.0.0.1", port=0)
        self._thread = threading.Thread(target=self._server.run, name="http-api", daemon=True)

    @property
    def origin(self) -> str:
        host, port = self._server.servers[0].sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    def __enter__(self) -> Self:
        self._thread.start()
        give_up = time.monotonic() + 30
        while not self._server.started:
            assert self._thread.is_alive(), "the server did not start"
            assert time.monotonic() < give_up
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(STOP_LIMIT_S)
        if self._thread.is_alive():
            faulthandler.dump_traceback()
            raise AssertionError("the server did not stop")

    def key(self, tenant: str = "acme", **rights: Any) -> str:
        """A new key of this tenant, for every namespace and scope unless `rights` (fields of Grant) say otherwise."""
        usual = {"namespaces": None, "scopes": frozenset(SCOPES)}
        store = KeyStore(self.settings.audit_database_url)
        try:
            return store.create(Grant(key_id="", tenant=tenant, **{**usual, **rights})).text
        finally:
            store.close()

    def redis(self) -> Redis:
        """A client of the pipeline's Redis."""
        return Redis.from_url(self.settings.redis_url or "")

    def client(self, tenant: str = "acme", **rights: Any) -> httpx.Client:
        """A client with a new key of this tenant."""
        headers = {"Authorization": f"Bearer {self.key(tenant, **rights)}"}
        return httpx.Client(base_url=self.origin, headers=headers, timeout=30)
