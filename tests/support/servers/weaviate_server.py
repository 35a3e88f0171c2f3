"""Weaviate for tests: own collections on the shared server, or a whole server to pause and kill."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil

from models.declarations.engines import WeaviateEndpoint
from search.engines.weaviate.store import WeaviateStore
from tests.support.servers.own_server import OwnServer, free_ports
from tests.support.servers.services import missing, need
from tests.support.stores.known_index import KnownIndexes


def shared_endpoint(**others: Any) -> WeaviateEndpoint:
    """Returns the shared server, with a collection that no other test has."""
    url = need("weaviate", "its store is tested against a real server (CHORALE_TEST_WEAVIATE_URL)")
    port = int(os.environ.get("CHORALE_TEST_WEAVIATE_GRPC_PORT", "50051"))
    made: dict[str, Any] = {"url": url, "grpc_port": port, "collection": f"Test{uuid.uuid4().hex[:12]}"}
    return WeaviateEndpoint(**made | others)


@contextmanager
def own_collection(**others: Any) -> Iterator[WeaviateEndpoint]:
    """Yields the shared server, with a collection that is deleted afterwards."""
    endpoint = shared_endpoint(**others)
    try:
        yield endpoint
    finally:
        for name in ("Passage", "Namespace"):
            httpx.delete(f"{endpoint.url}/v1/schema/{endpoint.collection}{name}", timeout=30)


@contextmanager
def shared_weaviate(**others: Any) -> Iterator[WeaviateStore]:
    """Yields a store in its own collection."""
    with own_collection(**others) as endpoint:
        store = WeaviateStore(endpoint)
        store.reader = KnownIndexes()
        try:
            yield store
        finally:
            store.close()


def activity(endpoint: WeaviateEndpoint) -> dict[str, str]:
    """Returns the server's own state of each tenant: HOT is open, COLD is closed."""
    answer = httpx.get(tenants_address(endpoint), timeout=30)
    return {one["name"]: one["activityStatus"] for one in answer.json()}


def delete_tenants(endpoint: WeaviateEndpoint) -> None:
    """Deletes all tenants, as a person with the server's own tools would."""
    address, names = tenants_address(endpoint), list(activity(endpoint))
    assert httpx.request("DELETE", address, json=names, timeout=30).is_success


def tenants_address(endpoint: WeaviateEndpoint) -> str:
    return f"{endpoint.url}/v1/schema/{endpoint.collection}Passage/tenants"


class WeaviateServer(OwnServer):
    """Runs the program of the shared server; entering the context waits until it is ready.

    `key` is the one API key that it takes, of an administrator; `certificate` and `private_key` (PEM) turn TLS on.
    """

    start_limit_s = 30.0

    def __init__(self, *, key: str, certificate: Path | None = None, private_key: Path | None = None) -> None:
        self._program = _program()
        super().__init__("weaviate")
        self.port, self.grpc_port, *others = free_ports(7)
        names = ("CLUSTER_GOSSIP_BIND_PORT", "CLUSTER_DATA_BIND_PORT", "RAFT_PORT", "RAFT_INTERNAL_RPC_PORT")
        self._environment = {
            **dict(zip(names, map(str, others), strict=False)),
            "GO_PROFILING_PORT": str(others[-1]),
            "GRPC_PORT": str(self.grpc_port),
            "GRPC_MAX_MESSAGE_SIZE": "10000000",
            "PERSISTENCE_DATA_PATH": str(self.folder),
            "CLUSTER_HOSTNAME": "own",
            "CLUSTER_ADVERTISE_ADDR": "127.0.0.1",
            "RAFT_BOOTSTRAP_EXPECT": "1",
            "DISABLE_TELEMETRY": "true",
            # Otherwise the only node waits five times as long for others.
            "RAFT_TIMEOUTS_MULTIPLIER": "1",
            "LOG_LEVEL": "error",
            "USE_INVERTED_SEARCHABLE": "false",
            "AUTHENTICATION_APIKEY_ENABLED": "true",
            "AUTHENTICATION_APIKEY_ALLOWED_KEYS": key,
            "AUTHENTICATION_APIKEY_USERS": "admin",
            "AUTHORIZATION_ADMINLIST_ENABLED": "true",
            "AUTHORIZATION_ADMINLIST_USERS": "admin",
        }
        self._arguments = ["--host", "127.0.0.1", "--scheme", "http", "--port", str(self.port)]
        self.scheme = "http"
        if certificate is not None and private_key is not None:
            self.scheme = "https"
            self._arguments = ["--scheme", "https", "--tls-host", "127.0.0.1", "--tls-port", str(self.port)]
            self._arguments += ["--tls-certificate", str(certificate), "--tls-key", str(private_key)]
            self._environment |= {"GRPC_CERT_FILE": str(certificate), "GRPC_KEY_FILE": str(private_key)}
        self.ready = f"{self.scheme}://127.0.0.1:{self.port}/v1/.well-known/ready"

    def endpoint(self, **others: Any) -> WeaviateEndpoint:
        made: dict[str, Any] = {"url": f"{self.scheme}://127.0.0.1:{self.port}", "grpc_port": self.grpc_port}
        return WeaviateEndpoint(**made | others)

    def launch(self) -> None:
        self._run([self._program, *self._arguments], env=self._environment)
        self.wait_ready()


def _program() -> str:
    """Returns `weaviate-server` on the PATH, else the program of the shared server on this machine."""
    if program := shutil.which("weaviate-server"):
        return program
    address = urlsplit(need("weaviate", "a server of its own is the shared one's program"))
    for listening in psutil.net_connections("tcp"):
        if (
            listening.status == psutil.CONN_LISTEN
            and listening.laddr[1:] == (address.port,)
            and listening.pid
        ):
            return psutil.Process(listening.pid).exe()
    missing("without weaviate-server on the PATH: these tests pause and kill a server of their own")
    raise AssertionError("missing() does not return")
