"""The server that chorale starts itself: real ones, in folders of all kinds."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from cli.local import redis_server
from cli.local.home_lock import hold_home
from cli.local.redis_server import prepare_redis
from config.home import FILE, find_redis_url, shared
from models.errors import ServiceError
from tests.support.waiting import until

AT_ONCE = Retry(NoBackoff(), 0)
"""An error is raised without a further attempt, which would come seconds later."""


@contextmanager
def served(home: Path) -> Iterator[tuple[redis.Redis, str, subprocess.Popen[bytes]]]:
    """A server of this home that answers, and that other terminals find."""
    url, command = prepare_redis(home)

    def answers() -> bool:
        with suppress(redis.ConnectionError):
            return bool(client.ping())
        return False

    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL) as process,
        redis.Redis.from_url(url, retry=AT_ONCE) as client,
        shared(home, {}, frozenset(), url),
    ):
        try:
            until(answers)
            yield client, url, process
        finally:
            process.kill()


@pytest.fixture(params=["plain", "a b 100% ü #?", "long" * 60])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def test_it_starts_in_every_home_and_other_terminals_find_it(home: Path) -> None:
    expected = {"bind": "127.0.0.1", "maxmemory-policy": "noeviction", "appendonly": "yes"}
    expected |= {"appendfsync": "everysec", "save": "", "aof-use-rdb-preamble": "no"}
    with served(home) as (client, url, process):
        assert find_redis_url(home) == url
        assert {name: client.config_get(name)[name] for name in expected} == expected
        secret = [home / "redis_url", home / FILE, home / "redis" / "redis.conf"]
        assert {stat.S_IMODE(file.stat().st_mode) for file in secret} == {0o600}
        # Everybody sees the arguments of a command.
        assert (urlsplit(url).password or "") not in str(process.args)
        with (
            redis.Redis(port=urlsplit(url).port or 0, retry=AT_ONCE) as stranger,
            pytest.raises(redis.AuthenticationError),
        ):
            stranger.ping()
        process.kill()
        process.wait()
        assert find_redis_url(home) is None
    assert not (home / FILE).exists()


def test_the_address_is_the_same_at_each_start_unless_its_port_is_taken(tmp_path: Path) -> None:
    first, second = (prepare_redis(tmp_path)[0] for _ in range(2))
    assert first == second
    with socket.create_server(("127.0.0.1", urlsplit(first).port or 0)):
        third, _ = prepare_redis(tmp_path)
    assert third != first
    assert urlsplit(third).hostname == "127.0.0.1"


def test_a_server_that_was_left_behind_is_ended_before_another_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_server, "_ORPHAN_LIMIT_S", 60.0)
    other = tmp_path / "other"
    with served(tmp_path) as (_, _, orphan), served(other) as (of_another_home, _, _):
        prepare_redis(tmp_path)
        assert orphan.wait(15) == 0
        assert of_another_home.ping()


def test_a_second_up_on_the_same_home_is_refused_and_a_killed_one_is_forgotten(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time\n"
        "from cli.local.home_lock import hold_home\n"
        "with hold_home(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(600)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"held\n"
        with pytest.raises(ServiceError, match=rf"process {first.pid}\b"), hold_home(tmp_path):
            pass
        first.kill()
    with hold_home(tmp_path):
        assert (tmp_path / "up.lock").read_text() == str(os.getpid())
