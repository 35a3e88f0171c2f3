"""A replica becomes the primary under load, behind an address that follows the primary: the same processes go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from typing import Any

import pytest
from chorale_client import Chorale, Request, ServiceUnavailable, make_request
from chorale_client.keys import HEARTBEAT, entry_key

from tests.contracts.client import NewClient
from tests.support.client_on_a_loop import ClientOnALoop
from tests.support.faults.serving import nobody_has_ended, serving
from tests.support.servers.redis_server import RedisServer, free_port
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.waiting import until

QUEUES = ["chorale.retrieve", "chorale.bm25,chorale.vector,chorale.hyde", "chorale.fusion", "chorale.index"]


def answers(client: Chorale) -> bool:
    """Whether a question is answered completely."""
    with suppress(ServiceUnavailable):
        return client.retrieve("bread", cache="bypass", timeout_s=5).status == "complete"
    return False


@contextmanager
def under_load(client: Chorale) -> Iterator[None]:
    stop = threading.Event()

    def ask() -> None:
        while not stop.wait(0.05):
            answers(client)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("new_client", "old_connections"),
    [(Chorale, "cut"), (ClientOnALoop, "kept")],
    ids=["threads, cut", "loop, kept"],
)
def test_the_same_workers_and_clients_go_on_after_a_failover(
    new_client: NewClient, old_connections: str
) -> None:
    """An address may keep the connections to the old primary, which takes no writes from then on."""
    with (
        RedisServer(port=free_port()) as primary,
        RedisServer(port=free_port()) as replica,
        TcpProxy(("127.0.0.1", primary.port)) as address,
        serving(QUEUES, server=primary, environment={"CHORALE_REDIS_URL": address.redis_url}) as pipeline,
        primary.client() as old,
        replica.client() as new,
        closing(new_client(address.redis_url)) as client,
    ):
        until(lambda: answers(client), 60)
        with under_load(client):
            new.replicaof("127.0.0.1", primary.port)
            until(lambda: new.info("replication")["master_link_status"] == "up")
            new.replicaof("NO", "ONE")
            old.replicaof("127.0.0.1", replica.port)
            address.target = ("127.0.0.1", replica.port)
            if old_connections == "cut":
                address.cut()
            until(lambda: answers(client), 60)

        nobody_has_ended(pipeline)
        new.delete(*(HEARTBEAT + name for name in pipeline.processes))
        until(lambda: all(new.exists(HEARTBEAT + name) for name in pipeline.processes))


@pytest.mark.slow
@pytest.mark.parametrize("new_client", [Chorale, ClientOnALoop], ids=["threads", "loop"])
def test_a_caller_that_waits_enters_a_request_again_that_the_new_primary_never_received(
    new_client: NewClient,
) -> None:
    with (
        RedisServer(port=free_port()) as primary,
        RedisServer(port=free_port()) as replica,
        TcpProxy(("127.0.0.1", primary.port)) as address,
        # Workers know the new primary alone, so the old one has the request until it dies.
        serving(QUEUES, server=replica),
        primary.client() as old,
        closing(new_client(address.redis_url)) as client,
        ThreadPoolExecutor(1) as threads,
    ):
        future = threads.submit(client.retrieve, "bread", request_id="r1", timeout_s=60)
        until(lambda: old.exists(entry_key("r1")))
        address.target = ("127.0.0.1", replica.port)
        address.cut()
        assert future.result().status == "complete"


def is_replicated(client: Any, request: Request) -> bool:
    try:
        return bool(client.submit_request(request))
    except ServiceUnavailable:
        return False  # a busy machine


@pytest.mark.parametrize("new_client", [Chorale, ClientOnALoop], ids=["threads", "loop"])
def test_a_sender_that_asks_for_a_replica_knows_which_requests_a_failover_would_lose(
    new_client: NewClient,
) -> None:
    names = ("on both", "on the primary", "sent to the primary")
    requests = {name: make_request("bread", request_id=name.replace(" ", "-")) for name in names}
    with (
        RedisServer(port=free_port()) as primary,
        RedisServer(port=free_port()) as replica,
        TcpProxy(("127.0.0.1", primary.port)) as link,
        replica.client() as new,
        closing(new_client(primary.tcp_url, replicas=1)) as client,
        closing(new_client(primary.tcp_url, replicas=1)) as another,
        closing(new_client(primary.tcp_url)) as without,
    ):
        new.replicaof("127.0.0.1", link.port)
        until(lambda: new.info("replication")["master_link_status"] == "up")
        until(lambda: is_replicated(client, requests["on both"]))
        link.stall()
        for sender in (client, another):  # the primary knows the second one, and the replica still lacks it
            with pytest.raises(ServiceUnavailable, match="only 0 of 1 replicas have it"):
                sender.submit_request(requests["on the primary"])
        assert without.submit_request(requests["sent to the primary"]).state == "new"
        primary.kill()
        new.replicaof("NO", "ONE")
        surviving = [name for name, one in requests.items() if new.exists(entry_key(one.request_id))]
        assert surviving == ["on both"]
