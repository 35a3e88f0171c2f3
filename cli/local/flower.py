"""Flower as a child of the supervisor: on loopback only, and with a login."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

from chorale_client.wire_names import TASK_RETRIEVE

from cli.local.child_process import Child
from cli.local.ports import Address

FLOWER = "flower"
USER = "chorale"
LOGIN_FILE = "flower_login"
VARIABLE = "FLOWER_BASIC_AUTH"
"""Flower's own variable for its login, `user:password`; the child has it in its environment, which `ps` does not show."""

OPTIONS = (
    # Workers send what CHORALE_TASK_EVENTS says.
    "--enable_events=False",
    "--tasks_columns=name,state,result,received,runtime,uuid,kwargs",
    # A request is about four tasks; 10,000 of them take 60 MB.
    "--max_tasks=10000",
)


def flower_child(home: Path, port: int, environment: Mapping[str, str]) -> Child:
    """Raises PortTaken."""
    Address("127.0.0.1", port).check_free("Flower", "--flower-port")
    # Otherwise a package `tasks` in the current folder would be imported instead of ours.
    folder = f"--workdir={Path(__file__).resolve().parents[2]}"
    command = (sys.executable, "-m", "celery", "--quiet", folder, "-A", "tasks.app", "flower", *OPTIONS)
    where = ("--address=127.0.0.1", f"--port={port}", "--logging=warning")
    return Child(FLOWER, (*command, *where), {**environment, VARIABLE: login(home)}, level=2, beats=False)


def flower_page(port: int) -> str:
    """The list of requests, without their branches."""
    return f"http://127.0.0.1:{port}/tasks?name={TASK_RETRIEVE}"


def login(home: Path) -> str:
    """`user:password`: the given one, else that of this home, which the first call makes."""
    if given := os.environ.get(VARIABLE):
        return given
    file = home / LOGIN_FILE
    try:
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return file.read_text().strip()
    with os.fdopen(descriptor, "w") as out:
        made = f"{USER}:{secrets.token_urlsafe(18)}"
        out.write(made + "\n")
    return made
