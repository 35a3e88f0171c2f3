"""Ways in which a Redis that answers refuses commands for a while, as in a failover or after a failed save."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

Refusal = Callable[[RedisServer], AbstractContextManager[None]]


@contextmanager
def read_only(server: RedisServer) -> Iterator[None]:
    """The server is a replica, as the old primary is after a failover."""
    with server.client() as client:
        client.replicaof("127.0.0.1", 1)
        try:
            yield
        finally:
            client.replicaof("NO", "ONE")


@contextmanager
def without_its_primary(server: RedisServer) -> Iterator[None]:
    """The server is a replica that serves nothing without its primary: MASTERDOWN for reads too."""
    with server.client() as client:
        client.config_set("replica-serve-stale-data", "no")
        with read_only(server):
            yield


@contextmanager
def without_replicas(server: RedisServer) -> Iterator[None]:
    with server.client() as client:
        client.config_set("min-replicas-to-write", "1")
        try:
            yield
        finally:
            client.config_set("min-replicas-to-write", "0")


@contextmanager
def unable_to_save(server: RedisServer) -> Iterator[None]:
    """The last save failed, since a folder is where the file belongs: MISCONF."""
    folder = server.folder / "dump.rdb"
    folder.mkdir()
    with server.client() as client:
        client.config_set("save", "3600 1")
        client.bgsave()
        until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")
        try:
            yield
        finally:
            client.config_set("save", "")
            folder.rmdir()


@contextmanager
def busy_with_a_script(server: RedisServer) -> Iterator[None]:
    with server.client() as client, server.client(socket_timeout=None) as running:
        before = client.config_get("lua-time-limit")["lua-time-limit"]
        client.config_set("lua-time-limit", 1)

        def run() -> None:
            with suppress(RedisError):
                running.eval("while true do end", 0)

        thread = threading.Thread(target=run)
        thread.start()
        until(lambda: _refuses(client))
        try:
            yield
        finally:
            client.script_kill()
            thread.join()
            client.config_set("lua-time-limit", before)


@contextmanager
def full(server: RedisServer) -> Iterator[None]:
    with server.client() as client:
        client.config_set("maxmemory", "1")
        try:
            yield
        finally:
            client.config_set("maxmemory", "0")


def _refuses(client: Redis) -> bool:
    try:
        client.ping()
    except ResponseError:
        return True
    return False
