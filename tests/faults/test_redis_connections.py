"""The network between callers, workers and Redis is cut, slow or silent: no caller blocks, and workers reconnect."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from chorale_client import Answer, Chorale, ServiceUnavailable, make_request
from chorale_client.keys import ENTRY

from tests.contracts.client import NewClient
from tests.support.client_on_a_loop import ClientOnALoop
from tests.support.faults.moments import join_without_one_branch
from tests.support.faults.observers import asking, audited, order_by, seen
from tests.support.faults.serving import ALL, is_as_before, serving
from tests.support.faults.waiting import one_branch_is_missing
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.waiting import until


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="module")
def network(server: RedisServer) -> Iterator[TcpProxy]:
    """The network between the workers and Redis."""
    with TcpProxy(str(server.socket_path)) as proxy:
        yield proxy


@pytest.fixture
def line(server: RedisServer) -> Iterator[TcpProxy]:
    """The network between one caller and Redis."""
    with TcpProxy(str(server.socket_path)) as proxy:
        yield proxy


@pytest.fixture(params=[Chorale, ClientOnALoop], ids=["threads", "loop"])
def new_client(request: pytest.FixtureRequest) -> Iterator[NewClient]:
    """The synchronous client, and the asynchronous one."""
    with ExitStack() as stack:

        def new(*args: str, **options: str) -> Chorale:
            made: Chorale = request.param(*args, **options)
            stack.callback(made.close)
            return made

        yield new


@pytest.fixture(scope="module")
def running(server: RedisServer, network: TcpProxy) -> Iterator[RunningPipeline]:
    environment = {"CHORALE_REDIS_URL": network.redis_url, "CHORALE_REDIS_SOCKET_TIMEOUT_S": "1"}
    with serving(server=server, environment=environment) as pipeline:
        yield pipeline


@pytest.fixture
def whole(running: RunningPipeline, network: TcpProxy) -> Iterator[RunningPipeline]:
    """Yields the pipeline; checks afterwards that every worker reconnects by itself and the next request is complete."""
    yield running
    network.delay_s, network.is_refusing = 0.0, False
    network.flow()
    is_as_before(running)


@contextmanager
def asking_without_vector(
    pipeline: RunningPipeline, client: Chorale, name: str, **options: Any
) -> Iterator[tuple[str, Future[Answer]]]:
    """Yields the id and the answer to come of a request whose branch `vector` has no worker for now."""
    request_id = f"{name}-{type(client).__name__}"
    request = make_request("ERR-4711", request_id=request_id, cache="bypass", **options)
    pipeline.pause("chorale.vector")
    with ThreadPoolExecutor(1) as executor:
        yield request_id, executor.submit(client.ask, request)


def test_workers_whose_connections_are_cut_in_the_middle_finish_the_request(
    whole: RunningPipeline, network: TcpProxy
) -> None:
    expected = order_by(whole, ALL)
    whole.pause("chorale.vector")
    future = asking(whole, request_id="workers-cut", timeout_s=20)
    one_branch_is_missing(whole, "workers-cut")

    assert network.cut() > 0
    whole.resume("chorale.vector")

    answer = future.result(60)
    assert (answer.status, answer.missing, answer.documents) == ("complete", [], expected)


def test_a_caller_whose_connection_is_cut_in_the_middle_gets_its_answer(
    whole: RunningPipeline, line: TcpProxy, new_client: NewClient
) -> None:
    expected = order_by(whole, ALL)
    client = new_client(line.redis_url)
    with asking_without_vector(whole, client, "caller-cut", timeout_s=20) as (request_id, future):
        one_branch_is_missing(whole, request_id)
        assert line.cut() > 0
        whole.resume("chorale.vector")
        answer = future.result(60)

    assert (answer.status, answer.degraded) == ("complete", ())
    assert [hit.document_id for hit in answer.hits] == expected
    assert whole.client().answer(request_id) == answer
    assert audited(whole, request_id).status == "complete"


def test_a_caller_whose_connection_was_cut_between_two_requests_notices_nothing(
    whole: RunningPipeline, line: TcpProxy, new_client: NewClient
) -> None:
    client = new_client(line.redis_url)
    assert client.retrieve("ERR-4711", cache="bypass", timeout_s=20).status == "complete"
    for _ in range(5):
        assert line.cut() > 0
        # Calls that missed the announcement would wait longer than the test may take.
        assert client.retrieve("ERR-4711", cache="bypass", timeout_s=60).status == "complete"


def test_a_caller_whose_connection_falls_silent_gets_an_error_within_its_time_limit(
    whole: RunningPipeline, line: TcpProxy, new_client: NewClient
) -> None:
    """The request ends as usual: a caller on another connection reads the complete answer."""
    client = new_client(line.redis_url)
    client.retrieve("bread", cache="bypass", timeout_s=20)
    with asking_without_vector(whole, client, "silent", timeout_s=5) as (request_id, future):
        one_branch_is_missing(whole, request_id)
        line.stall()
        whole.resume("chorale.vector")
        with pytest.raises(ServiceUnavailable, match=f"{request_id} was accepted"):
            future.result(60)

    assert whole.client().answer(request_id).status == "complete"


@pytest.mark.parametrize("timeout_s", [0.05, 0.5])
def test_a_caller_whose_server_never_answers_gets_an_error_within_its_time_limit(
    whole: RunningPipeline, line: TcpProxy, new_client: NewClient, timeout_s: float
) -> None:
    line.stall()
    with pytest.raises(ServiceUnavailable, match="Redis does not answer"):
        new_client(line.redis_url).retrieve("ERR-4711", timeout_s=timeout_s)


def test_a_broker_that_never_answers_holds_no_caller(
    whole: RunningPipeline, line: TcpProxy, new_client: NewClient
) -> None:
    """The request is in the ledger, so the sweeper sends the message that the caller could not send."""
    line.stall()
    client = new_client(whole.server.url, broker_url=line.redis_url)
    answer = client.retrieve("ERR-4711", cache="bypass", timeout_s=20)
    line.flow()  # a client that is closed waits for the message that it could not send
    assert answer.status == "complete"


def test_a_slow_network_makes_answers_later_and_no_worse(whole: RunningPipeline, network: TcpProxy) -> None:
    expected = order_by(whole, ALL)
    network.delay_s = 0.03

    answer = seen(whole, timeout_s=20)

    assert (answer.status, answer.missing, answer.documents) == ("complete", [], expected)
    assert answer.answer.took_ms >= 60, "a plan alone takes a trip in each direction"


def test_a_caller_that_takes_long_to_connect_still_gets_what_was_found(
    whole: RunningPipeline, line: TcpProxy, new_client: NewClient
) -> None:
    """Otherwise the caller would give up before the ledger does, and a request that lacks one branch would be `failed`."""
    expected = order_by(whole, ["bm25"])
    line.delay_s = 0.1  # there and back for the greeting of each connection, before anything is accepted
    client = new_client(line.redis_url, broker_url=whole.server.url)
    options: dict[str, Any] = {"branches": ["bm25", "vector"], "timeout_s": 20}
    with asking_without_vector(whole, client, "came-late", **options) as (request_id, future):
        until(lambda: whole.redis.exists(ENTRY + request_id))
        line.delay_s = 0.0
        accepted_at, deadline = whole.redis.hmget(ENTRY + request_id, ["accepted_at", "deadline"])
        assert int(deadline or 0) - int(accepted_at or 0) <= 20_000 - 200, "the caller gives up before that"
        join_without_one_branch(whole, request_id)
        answer = future.result(60)

    whole.resume("chorale.vector")
    assert answer.status == "degraded"
    assert [hit.document_id for hit in answer.hits] == expected
    assert [(missing.where, missing.reason) for missing in answer.degraded] == [
        ("search.vector", "not_started")
    ]


def test_workers_whose_connections_are_silent_beyond_the_deadline_cost_only_that_request(
    whole: RunningPipeline, network: TcpProxy
) -> None:
    """Only the caller can end the request; the workers give up their connections and make new ones."""
    network.stall()
    connections = network.accepted

    answer = whole.client().retrieve("ERR-4711", cache="bypass", timeout_s=1.5)

    assert answer.status == "failed"
    assert [(missing.where, missing.reason) for missing in answer.degraded] == [("plan", "not_started")]
    until(lambda: network.accepted > connections)
    network.flow()
    assert audited(whole, answer.request_id).status == "failed"


def test_workers_whose_connections_are_refused_for_a_while_reconnect(
    whole: RunningPipeline, network: TcpProxy
) -> None:
    network.is_refusing = True
    network.cut()
    failed = whole.client().retrieve("ERR-4711", cache="bypass", timeout_s=0.5)
    assert failed.status == "failed"

    network.is_refusing = False

    assert whole.client().retrieve("ERR-4711", cache="bypass", timeout_s=20).status == "complete"
