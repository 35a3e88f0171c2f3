"""The HTTP API of a running pipeline, with the console: the server of `chorale serve` in a thread of the test, on a free port."""

from __future__ import annotations

import faulthandler
import ssl
import threading
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import Any, Self

import httpx
from pydantic_core import from_json
from redis import Redis

from api import openapi
from api.serving import Server
from config.settings import Settings
from console.site import create_site
from records.keys.grant import SCOPES, Grant
from records.keys.key_store import KeyStore
from tests.support.waiting import until

STOP_LIMIT_S = 60.0
WITHOUT_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""A client of httpx with this context reads no certificates of authorities, which would take 30 ms of processor time."""


@cache
def description() -> dict[str, Any]:
    """The description of the API; a unit test compares it with the one that the API makes."""
    described: dict[str, Any] = from_json(openapi.FILE.read_bytes())
    return described


class HttpApi:
    """A context manager; `settings` name the pipeline's Redis."""

    def __init__(self, settings: Settings, *, doctor: Sequence[str] | None = None) -> None:
        self.settings = settings
        site = create_site(settings, doctor=doctor)
        # The first call would make it, in half a second of processor time.
        site.openapi_schema = description()
        self._server = Server(site, settings, host="127.0.0.1", port=0)
        self._thread = threading.Thread(target=self._server.run, name="http-api", daemon=True)

    @property
    def origin(self) -> str:
        host, port = self._server.servers[0].sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    def __enter__(self) -> Self:
        self._thread.start()
        until(lambda: self._server.started or not self._thread.is_alive())
        assert self._server.started, "the server did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(STOP_LIMIT_S)
        if self._thread.is_alive():
            faulthandler.dump_traceback()
            raise AssertionError("the server did not stop")
        if "keys" in self.__dict__:
            self.keys.close()

    @cached_property
    def keys(self) -> KeyStore:
        return KeyStore(self.settings.audit_database_url)

    def key(self, tenant: str = "acme", **rights: Any) -> str:
        """A new key of this tenant, for every namespace and scope unless `rights` (fields of Grant) say otherwise."""
        usual = {"namespaces": None, "scopes": frozenset(SCOPES)}
        return self.keys.create(Grant(key_id="", tenant=tenant, **{**usual, **rights})).text

    def redis(self) -> Redis:
        """A client of the pipeline's Redis."""
        return Redis.from_url(self.settings.redis_url or "")

    def client(self, tenant: str = "acme", **rights: Any) -> httpx.Client:
        """A client with a new key of this tenant."""
        return self.stranger({"Authorization": f"Bearer {self.key(tenant, **rights)}"})

    def stranger(self, headers: Mapping[str, str] | None = None) -> httpx.Client:
        """A client without a key, unless the headers have one."""
        return httpx.Client(base_url=self.origin, headers=headers, timeout=60, verify=WITHOUT_TLS)

    def revoke(self, client: httpx.Client) -> None:
        """Revoke the key of a client."""
        self.keys.revoke(client.headers["authorization"].split("_")[1])
