"""Which server `chorale up` starts, and that it reads what another one wrote into the home."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from cli.local import redis_server
from cli.local.processes import running
from cli.local.redis_server import bundled_server, find_server, prepare_redis
from config.settings import Settings
from models.errors import ServiceError
from tasks.wiring.pipeline import load_pipeline
from tests.support.waiting import until

REDIS, VALKEY = "redis-server", "valkey-server"
DEBIANS = "/usr/bin/redis-server"
needs_redis = pytest.mark.skipif(not Path(DEBIANS).exists(), reason="`apt install redis-server` brings one")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def put(folder: Path, name: str, says: str) -> str:
    """An executable that says this of itself."""
    file = folder / name
    file.write_text(f"#!/bin/sh\necho '{says}'\n")
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize(
    ("on_the_path", "choice"),
    [
        ({}, "the bundled one"),
        ({REDIS: "Redis server v=99.0.0 sha=0:0 malloc=libc bits=64"}, REDIS),
        ({VALKEY: "Valkey server v=99.0.0 sha=0:0 malloc=libc bits=64"}, VALKEY),
        ({REDIS: "Redis server v=10.0.0", VALKEY: "Valkey server v=10.0.1"}, VALKEY),
        ({REDIS: "Redis server v=10.10.0", VALKEY: "Valkey server v=10.9.1"}, REDIS),
        # Valkey's packages bring the name `redis-server` too.
        ({REDIS: "Valkey server v=99.0.0"}, REDIS),
        ({REDIS: "Redis server v=8.10.1", VALKEY: "Valkey server v=8.1.4"}, "the bundled one"),
        ({REDIS: "Redis server v=6.2.14"}, "the bundled one"),
        ({REDIS: "no version", VALKEY: ""}, "the bundled one"),
    ],
)
def test_the_newest_server_is_taken_by_its_version_number(
    path: Path, on_the_path: dict[str, str], choice: str
) -> None:
    for name, says in on_the_path.items():
        put(path, name, says)

    expected = bundled_server() if choice == "the bundled one" else str(path / choice)
    assert find_server().executable == expected


def test_of_equal_versions_that_of_the_system_is_taken(path: Path) -> None:
    bundled = find_server()
    mine = put(path, VALKEY, f"Valkey server v={'.'.join(map(str, bundled.version))}")

    assert find_server().executable == mine


def test_the_bundled_server_is_a_valkey_that_runs(path: Path) -> None:
    bundled = find_server()

    assert os.access(bundled.executable, os.X_OK)
    assert bundled.version >= (9, 1, 2)


def test_without_any_server_one_sentence_says_what_to_install(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    sentence = (
        r"^No Redis server of version 7\.0 or newer found%s: install redis-server .* or set CHORALE_REDIS_URL"
    )
    with pytest.raises(ServiceError, match=sentence % ""):
        find_server()

    old = put(path, REDIS, "Redis server v=6.2.14 sha=0:0")
    with pytest.raises(ServiceError, match=sentence % rf" \({old} is 6\.2\.14\)"):
        find_server()


class Home:
    """A home whose server is one that the test names."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch

    def use(self, executable: str) -> None:
        server = redis_server._server_at(executable)
        assert server is not None
        self._monkeypatch.setattr(redis_server, "find_server", lambda: server)

    def append(self, executable: str, word: str, *options: str) -> list[bytes]:
        """Has this server append the word to a list, and returns the list.  `options` are added to its command."""
        self.use(executable)
        url, command = prepare_redis(self.folder)
        with (
            subprocess.Popen([*command, *options], stdout=subprocess.PIPE) as process,
            redis.Redis.from_url(url) as client,
        ):

            def appended() -> bool:
                assert process.poll() is None, process.communicate()[0].decode()
                with suppress(redis.ConnectionError):
                    return bool(client.rpush("words", word))
                return False

            until(appended)
            words: list[bytes] = client.lrange("words", 0, -1)
            client.bgrewriteaof()
            until(lambda: not client.info("persistence")["aof_rewrite_in_progress"])
            process.terminate()
        return words


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    return Home(tmp_path / "home", monkeypatch)


@needs_redis
def test_redis_and_the_bundled_valkey_read_each_others_files_in_turn(home: Home) -> None:
    bundled = bundled_server()
    assert bundled is not None

    for number, executable in enumerate([DEBIANS, bundled, DEBIANS, bundled], 1):
        assert len(home.append(executable, "word")) == number


@needs_redis
def test_files_that_the_server_cannot_read_end_the_start_with_its_own_words(home: Home) -> None:
    bundled = bundled_server()
    assert bundled is not None
    home.append(bundled, "first", "--aof-use-rdb-preamble", "yes")
    home.use(DEBIANS)

    with (
        pytest.raises(
            ServiceError,
            match=r"^redis ended with exit code 1 before it answered \(.* Bad file format .*\): if another server wrote "
            rf"{home.folder}/redis, put that one on the PATH, or move the folder away",
        ),
        running(
            Settings(home=home.folder), load_pipeline(), lambda name, line: None, workers=lambda _: []
        ) as started,
    ):
        started.supervisor.require_ready()
    assert not (home.folder / "up.json").exists()
