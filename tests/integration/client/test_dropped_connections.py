"""A balancer forgets connections without a word: the next call is answered all the same, long before its time is over."""

from __future__ import annotations

import json
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from chorale_client import Chorale, ServiceUnavailable, make_request
from chorale_client import client as blocking
from chorale_client.asynchronous import client as asynchronous
from chorale_client.connections import idle
from chorale_client.keys import INDEXED, JOB_COMMANDS, JOB_REPLY, entry_key
from chorale_client.wire_names import QUEUE_INDEX, QUEUE_RETRIEVE
from kombu import Queue
from redis import Redis

from tests.contracts.client import NewClient
from tests.support.client_on_a_loop import ClientOnALoop
from tests.support.ledger.requests import BODY
from tests.support.ledger.single_steps import SingleSteps
from tests.support.servers.rabbitmq import own_queues
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.services import need
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.waiting import until

LIMIT_S = 60.0
"""The time limit of a request.  A call that waits on a dead connection takes this long."""
SOON_S = 25.0
"""A new connection takes much less than this time, even on a busy machine."""


@pytest.fixture
def proxy(redis_server: RedisServer, redis_client: Redis) -> Iterator[TcpProxy]:
    with TcpProxy(str(redis_server.socket_path)) as proxy:
        yield proxy


@pytest.fixture(params=[Chorale, ClientOnALoop], ids=["blocking", "on a loop"])
def new_client(request: pytest.FixtureRequest) -> Iterator[NewClient]:
    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(closing(request.param(*args, **options)))


@pytest.fixture
def service(redis_client: Redis) -> Iterator[None]:
    """Answers requests and calls, as the workers and the sweeper process do, and has indexed every message at once."""
    ledger, is_over = SingleSteps(redis_client), threading.Event()

    def serve() -> None:
        while not is_over.is_set():
            popped: Any = redis_client.brpop([QUEUE_RETRIEVE, QUEUE_INDEX, JOB_COMMANDS], timeout=0.1)
            if popped is None:
                continue
            queue, message = popped[0].decode(), json.loads(popped[1])
            if queue == JOB_COMMANDS:
                reply = {"v": 1, "number": message["number"], "result": []}
                redis_client.lpush(JOB_REPLY + message["caller"], json.dumps(reply))
            elif queue == QUEUE_INDEX:
                report = {"namespace": "docs", "generation": 1}
                redis_client.set(INDEXED + message["headers"]["id"], json.dumps(report))
            else:
                request_id = json.loads(b64decode(message["body"]))[1]["request_id"]
                ledger.finish(request_id, by="fusion", body=BODY, is_complete=True)

    serving = threading.Thread(target=serve)
    serving.start()
    yield
    is_over.set()
    serving.join()


def an_hour_later() -> float:
    return time.monotonic() + 3_600


@contextmanager
def soon() -> Iterator[None]:
    begun_s = time.monotonic()
    yield
    assert time.monotonic() - begun_s < SOON_S


def warmed_up(client: Chorale) -> Chorale:
    """The client, with every kind of connection that it has."""
    assert client.retrieve("warm", timeout_s=LIMIT_S).status == "complete"
    hand_in(client)
    return client


def hand_in(client: Any) -> str:
    ticket = client.upsert("docs", [{"id": "tea", "title": "Tea", "text": "Green tea."}])
    return str(client.wait_visible(ticket).namespace)


CALLS: dict[str, Callable[[Any], object]] = {
    "a request": lambda client: client.retrieve("bread", timeout_s=LIMIT_S).status,
    "a request without a time limit": lambda client: client.retrieve("bread").status,
    "a request whose answer is read later": lambda client: client.submit("bread").answer(LIMIT_S).status,
    "events": lambda client: list(client.submit("bread", timeout_s=LIMIT_S).events())[-1].status,
    "documents": hand_in,
}


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_on_connections_that_were_dropped_is_answered(
    new_client: NewClient, proxy: TcpProxy, call: Callable[[Any], object]
) -> None:
    # A command without an answer is sent again after half of this time.
    client = warmed_up(new_client(proxy.redis_url, socket_timeout_s=1))
    assert proxy.drop() > 0
    with soon():
        assert call(client) in ("complete", "docs")


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize("name", ["a request", "events", "documents"])
def test_after_a_pause_a_dropped_connection_costs_no_part_of_the_time_limit(
    new_client: NewClient,
    proxy: TcpProxy,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A first attempt may take half of the patience.
    client = warmed_up(new_client(proxy.redis_url, socket_timeout_s=4 * SOON_S))
    assert proxy.drop() > 0
    monkeypatch.setattr(idle, "now_s", an_hour_later)
    with soon():
        assert CALLS[name](client) in ("complete", "docs")


@pytest.mark.usefixtures("service")
def test_a_redis_whose_replies_take_400_ms_answers_on_new_connections(
    new_client: NewClient, proxy: TcpProxy
) -> None:
    """A command may take two seconds, and so may what its new connection says first."""
    proxy.delay_s = 0.2
    for _ in range(3):
        assert new_client(proxy.redis_url).retrieve("bread", timeout_s=LIMIT_S).status == "complete"


def test_the_command_that_ends_a_request_may_take_more_than_half_of_the_time_that_is_left(
    new_client: NewClient, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command before it has shown that the connection lives.  Of 1.15 s the two take .4 s each."""
    for module in (blocking, asynchronous):
        monkeypatch.setattr(module, "FINISH_S", 1.15)
    client = new_client(proxy.redis_url)
    assert client.retrieve("warm", timeout_s=0.3).status == "failed"
    proxy.delay_s = 0.2
    assert client.retrieve("bread", timeout_s=1).status == "failed"


def test_an_end_after_the_connections_were_dropped_is_seen(
    new_client: NewClient, proxy: TcpProxy, redis_client: Redis
) -> None:
    client, answers = new_client(proxy.redis_url), cast("list[str]", [])
    handle = client.submit("bread", timeout_s=LIMIT_S)
    waiting = threading.Thread(target=lambda: answers.append(handle.answer(LIMIT_S).status))
    waiting.start()
    until(lambda: redis_client.pubsub_channels())
    proxy.drop()
    with soon():
        SingleSteps(redis_client).finish(handle.id, by="fusion", body=BODY, is_complete=True)
        waiting.join()
    assert answers == ["complete"]


def test_a_call_that_failed_leaves_no_subscription_while_its_error_is_kept(
    new_client: NewClient, redis_server: RedisServer, redis_client: Redis
) -> None:
    client = new_client(redis_server.url)
    redis_client.set(entry_key("damaged"), "not a hash")
    with pytest.raises(ServiceUnavailable) as raised:
        client.ask(make_request("bread", request_id="damaged"))
    until(lambda: not redis_client.pubsub_channels())
    assert "WRONGTYPE" in str(raised.value)


@pytest.mark.usefixtures("service")
def test_a_call_of_the_sweeper_process_is_answered(proxy: TcpProxy) -> None:
    with closing(Chorale(proxy.redis_url)) as client:
        assert client.jobs.last() == []
        assert proxy.drop() > 0
        with soon():
            assert client.namespaces() == []


def test_a_message_to_rabbitmq_goes_over_a_new_connection_after_a_pause(
    new_client: NewClient, redis_server: RedisServer, redis_client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = need("rabbitmq", "whether messages reach it over dropped connections is not tested")
    parts = urlsplit(url)
    with (
        own_queues(url, [QUEUE_RETRIEVE]) as connection,
        TcpProxy((parts.hostname or "", parts.port or 5672)) as proxy,
    ):
        queue = Queue(QUEUE_RETRIEVE, channel=connection.default_channel)
        queue.declare()
        netloc = f"{parts.username}:{parts.password}@127.0.0.1:{proxy.port}"
        client = new_client(redis_server.url, broker_url=parts._replace(netloc=netloc).geturl())
        for _ in range(2):
            handle = client.submit("bread")
            message = until(lambda: queue.get(no_ack=True))
            assert message.payload[1] == {"request_id": handle.id}
            assert proxy.drop() > 0
            monkeypatch.setattr(idle, "now_s", an_hour_later)


def test_connections_over_tcp_are_kept_alive(proxy: TcpProxy) -> None:
    options = idle.keep_alive(proxy.redis_url)
    assert options["socket_keepalive"]
    assert all(0 < value <= 60 for value in options["socket_keepalive_options"].values())
    assert idle.keep_alive("unix:///run/redis.sock?db=0") == {}
