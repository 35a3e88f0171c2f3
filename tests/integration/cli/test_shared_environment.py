"""Commands in other terminals find what `chorale up` runs with its settings."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from config.home import FILE, shared, shared_environment
from config.settings import load_settings, variables
from tests.support.command_line import in_process
from tests.support.servers.redis_server import RedisServer

URL = "redis://127.0.0.1:1/0"
OF_UP = {
    "CHORALE_REDIS_URL": "redis://:secret@127.0.0.1:6380/0",
    "CHORALE_ON_END_QUEUES": "app,reports",
    "CHORALE_LOG_FORMAT": "json",
    "CHORALE_BROKER_URL": "",
    "PATH": "/bin",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHORALE_HOME", str(tmp_path))
    for name in OF_UP.keys() - {"PATH"}:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_a_command_takes_the_settings_of_up_where_it_has_none(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shared(home, OF_UP, variables(), URL):
        assert stat.S_IMODE((home / FILE).stat().st_mode) == 0o600
        settings = load_settings()
        assert (settings.redis_url, settings.on_end_queues) == (
            OF_UP["CHORALE_REDIS_URL"],
            ("app", "reports"),
        )
        assert settings.broker_url is None, "an empty variable counts as not set"
        assert settings.log_format == "console", "what is printed is each terminal's own"
        monkeypatch.setenv("CHORALE_ON_END_QUEUES", "mine")
        assert load_settings().on_end_queues == ("mine",)
    assert (load_settings().redis_url, shared_environment(home)) == (None, {})


def test_what_a_killed_up_left_behind_is_not_taken(home: Path) -> None:
    with shared(home, OF_UP, variables(), URL):
        stored = json.loads((home / FILE).read_text())
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    for pid, began in ((ended.pid, stored["began"]), (os.getpid(), stored["began"] - 60)):
        (home / FILE).write_text(json.dumps({**stored, "pid": pid, "began": began}))
        assert shared_environment(home) == {}
    for content in ("", "[]", '{"pid": "x"}', '{"pid": 1, "began": 0, "environment": []}'):
        (home / FILE).write_text(content)
        assert shared_environment(home) == {}


def test_env_and_the_message_of_other_commands_name_the_redis_that_runs_where_the_terminal_has_an_older_address(
    home: Path, redis_server: RedisServer
) -> None:
    stale = {"CHORALE_HOME": str(home), "CHORALE_REDIS_URL": URL}
    with shared(home, {}, variables(), redis_server.url):
        called = in_process("env", "--json", **stale)
        refused = in_process("status", **stale)
    assert json.loads(called.stdout)["environment"] == {"CHORALE_REDIS_URL": redis_server.url}
    assert refused.returncode == 1
    assert f'runs on {home} at another address: eval "$(chorale env)"' in " ".join(refused.stderr.split())
