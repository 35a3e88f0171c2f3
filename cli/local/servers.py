"""The HTTP API and Flower as children of the supervisor, with the key and the login that their first users get."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING

from chorale_client.wire_names import TASK_RETRIEVE

from cli.local.child_process import Child
from cli.local.ports import Address
from cli.local.supervisor import Heartbeats
from config.home import write_private
from monitoring.heartbeats import Heartbeat

if TYPE_CHECKING:
    from config.settings import Settings

HTTP = "http"
KEY_FILE = "http_key"
ANSWERS_WITHIN_S = 1.0
"""While it waits for an answer, the supervisor looks after no other process."""

FLOWER = "flower"
USER = "chorale"
LOGIN_FILE = "flower_login"
VARIABLE = "FLOWER_BASIC_AUTH"
"""Flower's own variable for its login, `user:password`; the child has it in its environment, which `ps` does not show."""

PREFIX = "FLOWER_URL_PREFIX"
"""Flower's own variable for the path of its pages behind a proxy, such as `flower`."""

OPTIONS = (
    # Workers send what CHORALE_TASK_EVENTS says.
    "--enable_events=False",
    "--tasks_columns=name,state,result,received,runtime,uuid,kwargs",
    # A request is about four tasks; 10,000 of them take 60 MB.
    "--max_tasks=10000",
)


def http_child(address: Address, environment: Mapping[str, str]) -> Child:
    """Raises PortInUse."""
    address.check_free("The HTTP API", "--http-bind")
    command = (sys.executable, "-m", "cli", "serve", "--host", address.host, "--port", str(address.port))
    return Child(HTTP, command, environment, level=2)


def with_servers(others: Heartbeats, http: Address | None, flower: Address | None) -> Heartbeats:
    """Adds the heartbeats of the HTTP API and of Flower to `others`: their event loops answer a health page.  A process that hangs
    does not answer."""
    servers = {HTTP: (http, "/healthz"), FLOWER: (flower, f"{flower_prefix()}/healthcheck")}

    def heartbeats(names: Sequence[str]) -> Mapping[str, Heartbeat | None]:
        beats = dict(others([name for name in names if name not in servers]))
        for name, (address, page) in servers.items():
            if address is not None and _answers(address, page):
                beats[name] = Heartbeat(name, 0.0, is_ready=True)
        return beats

    return heartbeats


def _answers(address: Address, page: str) -> bool:
    try:
        with closing(HTTPConnection(address.host, address.port, timeout=ANSWERS_WITHIN_S)) as connection:
            connection.request("GET", page)
            return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False


def api_lines(settings: Settings, address: Address) -> list[str]:
    """Lines that say where the API is and how to ask it; makes the first key where only this machine can ask."""
    lines = [f"HTTP: http://{address}/v1"]
    console = f"console: http://{address}/"
    if not address.is_loopback:
        lines.append("this address has no TLS: put a proxy with TLS in front of it")
    key = (
        own_key(settings)
        if address.is_loopback and settings.audit_url is None and settings.database_url is None
        else None
    )
    if key is None:
        return [*lines, console, "it asks for a key: `chorale keys create --help`"]
    return [*lines, f"{console}, with the key in {shlex.quote(str(key))}", curl(address, key)]


def curl(address: Address, key: Path) -> str:
    return (
        f'curl http://{address}/v1/searches -H "Authorization: Bearer $(cat {shlex.quote(str(key))})" '
        """-H 'Content-Type: application/json' -d '{"questions": ["Who pays for repairs?"], "namespace": "docs"}'"""
    )


def own_key(settings: Settings) -> Path | None:
    """The file with the key of this home, which may search and see its searches; None if there is none because the operator has made keys.

    The first call makes key and file, and only this user can read the file.  Raises KeysUnavailable.
    """
    from cli.installation import open_keys
    from records.keys.grant import Grant

    file = settings.home / KEY_FILE
    if file.exists():
        return file
    with open_keys(settings) as store:
        if store.list(1):
            return None
        scopes = frozenset({"search:run", "search:read", "audit:read"})
        grant = Grant(key_id="", tenant="", namespaces=None, scopes=scopes)
        key = store.create(grant, name=f"{KEY_FILE} of `chorale up`")
    write_private(file, key.text + "\n")
    return file


def flower_child(home: Path, port: int, environment: Mapping[str, str]) -> Child:
    """Raises PortInUse."""
    flower_address(port).check_free("Flower", "--flower-port")
    # Otherwise a package `tasks` in the current folder would be imported instead of ours.
    folder = f"--workdir={Path(__file__).resolve().parents[2]}"
    command = (sys.executable, "-m", "celery", "--quiet", folder, "-A", "tasks.app", "flower", *OPTIONS)
    where = ("--address=127.0.0.1", f"--port={port}", "--logging=warning")
    return Child(FLOWER, (*command, *where), {**environment, VARIABLE: login(home)}, level=2)


def flower_address(port: int) -> Address:
    return Address("127.0.0.1", port)


def flower_prefix() -> str:
    """What stands before the path of each of Flower's pages."""
    prefix = os.environ.get(PREFIX, "").strip("/")
    return f"/{prefix}" if prefix else ""


def flower_page(port: int) -> str:
    """The list of requests, without their branches."""
    return f"http://{flower_address(port)}{flower_prefix()}/tasks?name={TASK_RETRIEVE}"


def login(home: Path) -> str:
    """`user:password`: the given one, else that of this home, which the first call makes."""
    if configured := os.environ.get(VARIABLE):
        return configured
    file = home / LOGIN_FILE
    if not file.exists():
        write_private(file, f"{USER}:{secrets.token_urlsafe(18)}\n")
    return file.read_text().strip()
