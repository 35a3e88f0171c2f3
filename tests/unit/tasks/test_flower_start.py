"""Flower starts with a login, or for this machine alone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from tornado.web import HTTPError

from tasks.celery_internals.flower_start import WRONG_LOGIN_S, delay_wrong_logins, missing_login
from tests.support.servers.redis_server import free_port

ROOT = Path(__file__).parents[3]
LOGIN = ["ada:lovelace"]


@pytest.mark.parametrize("address", ["", "0.0.0.0", "::", "192.0.2.7", "flower.example"])
def test_others_than_this_machine_must_log_in(address: str) -> None:
    assert "FLOWER_BASIC_AUTH" in missing_login(address, "", None, "")
    assert missing_login(address, "", LOGIN, "") == ""
    assert missing_login(address, "", None, ".*@example.com") == ""


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_this_machine_needs_no_login(address: str) -> None:
    assert missing_login(address, "", None, "") == ""
    assert missing_login("", "/run/flower.sock", None, "") == ""


@pytest.mark.parametrize("login", ["", ":", "ada", "ada:", ":lovelace"])
def test_a_login_without_a_user_or_a_password_does_not_count(login: str) -> None:
    assert "user:password" in missing_login("0.0.0.0", "", [*LOGIN, login], "")


@pytest.mark.slow
@pytest.mark.parametrize("login", [None, ""])
def test_flower_without_a_login_does_not_open_its_port(tmp_path: Path, login: str | None) -> None:
    environment = {"CHORALE_HOME": str(tmp_path), "CHORALE_REDIS_URL": "redis://127.0.0.1:1/0"}
    environment |= {} if login is None else {"FLOWER_BASIC_AUTH": login}
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "tasks.app", "flower", f"--port={free_port()}"],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "FLOWER_BASIC_AUTH" in done.stderr
    assert "Visit me" not in done.stderr


class Handler:
    """A page of Flower that needs the login `right`."""

    def __init__(self, **headers: str) -> None:
        self.request = SimpleNamespace(headers=headers)

    def get_current_user(self) -> bool:
        if self.request.headers.get("Authorization") != "right":
            raise HTTPError(401)
        return True

    async def prepare(self) -> None: ...


def test_wrong_logins_wait_one_after_another_and_nobody_else_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, most, waits_s = 0, 0, []
    yields = asyncio.sleep

    async def sleep(seconds: float) -> None:
        nonlocal waiting, most
        if threading.current_thread() is not threading.main_thread():
            # A server of another test.
            return await yields(seconds)
        waiting += 1
        most = max(most, waiting)
        waits_s.append(seconds)
        await yields(0)
        waiting -= 1

    async def called() -> None:
        pages = [Handler(Authorization="wrong") for _ in range(5)]
        await asyncio.gather(
            *(page.prepare() for page in (*pages, Handler(Authorization="right"), Handler()))
        )

    monkeypatch.setattr(asyncio, "sleep", sleep)
    delay_wrong_logins(Handler)
    asyncio.run(called())
    assert (waits_s, most) == ([WRONG_LOGIN_S] * 5, 1)
