"""The HTTP API as a child of the supervisor, and the key with which a newcomer asks it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING

from cli.local.child_process import Child
from cli.local.ports import Address
from cli.local.supervisor import Heartbeats
from monitoring.heartbeats import Heartbeat

if TYPE_CHECKING:
    from config.settings import Settings

HTTP = "http"
KEY_FILE = "http_key"
ANSWERS_WITHIN_S = 1.0
"""While it waits for an answer, the supervisor looks after no other process."""


def http_child(address: Address, environment: Mapping[str, str]) -> Child:
    """Raises PortTaken."""
    address.check_free("The HTTP API", "--http-bind")
    command = (sys.executable, "-m", "cli", "serve", "--host", address.host, "--port", str(address.port))
    return Child(HTTP, command, environment, level=2)


def with_http(others: Heartbeats, address: Address | None) -> Heartbeats:
    return others if address is None else HttpHeartbeats(others, address)


@dataclass(frozen=True, slots=True)
class HttpHeartbeats:
    """Adds the HTTP API's heartbeat to `others`: its event loop answers `/healthz`.  A process that hangs does not."""

    others: Heartbeats
    address: Address

    def __call__(self, names: Sequence[str]) -> Mapping[str, Heartbeat | None]:
        beats = dict(self.others([name for name in names if name != HTTP]))
        if self._answers():
            beats[HTTP] = Heartbeat(HTTP, 0.0, is_ready=True)
        return beats

    def _answers(self) -> bool:
        connection = HTTPConnection(self.address.host, self.address.port, timeout=ANSWERS_WITHIN_S)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


def how_to_ask(settings: Settings, address: Address) -> list[str]:
    """Lines that say where the API is and how to ask it; makes the first key where only this machine can ask."""
    lines = [f"HTTP: http://{address}/v1"]
    if not address.is_loopback:
        lines.append("this address has no TLS: put a proxy with TLS in front of it")
    key = own_key(settings) if address.is_loopback and settings.audit_url is None else None
    if key is None:
        return [*lines, "it asks for a key: `chorale keys create --help`"]
    return [*lines, curl(address, key)]


def curl(address: Address, key: Path) -> str:
    return (
        f'curl http://{address}/v1/searches -H "Authorization: Bearer $(cat {shlex.quote(str(key))})" '
        """-H 'Content-Type: application/json' -d '{"questions": ["Who pays for repairs?"], "namespace": "docs"}'"""
    )


def own_key(settings: Settings) -> Path | None:
    """The file with the key of this home, which may search; None if there is none because the operator has made keys.

    The first call makes key and file, and only this user can read the file.  Raises KeysUnavailable.
    """
    from access.grant import Grant
    from access.key_store import KeyStore, KeysUnavailable
    from cli.installation import upgraded_database

    file = settings.home / KEY_FILE
    if file.exists():
        return file
    store = KeyStore(upgraded_database(settings, "keys", KeysUnavailable))
    try:
        if store.list():
            return None
        scopes = frozenset({"search:run", "search:read"})
        grant = Grant(key_id="", tenant="", namespaces=None, scopes=scopes)
        made = store.create(grant, name=f"{KEY_FILE} of `chorale up`")
    finally:
        store.close()
    with os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as out:
        out.write(made.text + "\n")
    return file
