"""How scripts are run: a lost connection is replaced, and nobody reads the answer of another."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from chorale_client.scripts import Scripts
from redis import Redis

from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

ECHO = "return ARGV[1]"
BUSY = """
local begun = now_ms()
while now_ms() < begun + 1000 do end
return 'late'
"""


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Redis]:
    with Redis.from_url(redis_server.url, socket_timeout=5) as made:
        yield made


@pytest.fixture
def scripts(client: Redis, tmp_path: Path) -> Scripts:
    (tmp_path / "echo.lua").write_text(ECHO)
    (tmp_path / "busy.lua").write_text(BUSY)
    return Scripts(client, tmp_path)


def test_a_closed_connection_is_replaced_and_a_server_that_forgot_the_scripts_gets_them_again(
    scripts: Scripts, redis_client: Redis
) -> None:
    assert scripts.run("echo", args=["first"]) == b"first"
    redis_client.client_kill_filter(_type="normal", skipme=True)
    assert scripts.run("echo", args=["second"]) == b"second"
    redis_client.script_flush()
    assert scripts.run("echo", args=["third"]) == b"third"


def test_a_server_that_takes_the_place_of_the_one_with_the_script_gets_it_too(
    scripts: Scripts, client: Redis, redis_client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_before_a_failover(text: str) -> object:
        monkeypatch.undo()
        loaded = client.script_load(text)
        redis_client.script_flush()
        return loaded

    monkeypatch.setattr(client, "script_load", load_before_a_failover)
    redis_client.script_flush()
    assert scripts.run("echo", args=["after the failover"]) == b"after the failover"


def test_threads_do_not_get_the_answers_of_others(scripts: Scripts) -> None:
    def wrong(name: int) -> list[str]:
        texts = [f"thread {name}, {number}" for number in range(200)]
        return [text for text in texts if scripts.run("echo", args=[text]) != text.encode()]

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(wrong, range(8))) == [[]] * 8


def test_a_child_process_does_not_read_the_answers_of_its_parent(scripts: Scripts) -> None:
    scripts.run("echo", args=["before the fork"])
    child = os.fork()
    own = b"child" if child == 0 else b"parent"
    is_right = all(scripts.run("echo", args=[own]) == own for _ in range(300))
    if child == 0:
        os._exit(0 if is_right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert is_right


@pytest.mark.slow
def test_an_interrupted_call_leaves_no_answer_for_the_next(scripts: Scripts) -> None:
    """As a worker that is told to stop while it waits for Redis."""
    scripts.run("echo", args=["connects"])

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def interrupted() -> None:
        timer.start()
        scripts.run("busy")

    before = signal.signal(signal.SIGUSR1, interrupt)
    timer = threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGUSR1])
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
    assert scripts.run("echo", args=["next"]) == b"next"


def test_a_thread_that_has_ended_leaves_no_connection(
    scripts: Scripts, client: Redis, redis_client: Redis
) -> None:
    scripts.run("echo", args=["own"])
    before = len(redis_client.client_list())
    for _ in range(20):
        thread = threading.Thread(target=scripts.run, args=["echo"], kwargs={"args": ["other"]})
        thread.start()
        thread.join()
    # The server sees the end of the last connection a moment later, and perhaps that of a connection of an earlier test.
    until(lambda: len(redis_client.client_list()) <= before)
