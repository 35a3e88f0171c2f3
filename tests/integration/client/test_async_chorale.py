"""Both clients keep one contract, and the asynchronous one belongs to an event loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import wraps
from typing import Any, cast

import psutil
import pytest
from chorale_client import (
    AsyncChorale,
    AsyncHandle,
    Chorale,
    RequestIdConflict,
    ServiceUnavailable,
    Status,
    make_request,
)
from chorale_client.asynchronous.announcements import Announcements
from chorale_client.asynchronous.client import MOST_CONNECTIONS
from chorale_client.keys import OUTBOX, OVERLOAD, entry_key
from chorale_client.wire_names import QUEUE_RETRIEVE
from redis import Redis

from records.audit.outbox import parse
from records.audit.rows import rows_of
from tests.contracts.client import (
    AskingContract,
    ClientContract,
    DocumentsContract,
    EventsContract,
    HandleContract,
    NewClient,
)
from tests.support.client_on_a_loop import ClientOnALoop
from tests.support.ledger.requests import BODY
from tests.support.ledger.single_steps import SingleSteps
from tests.support.servers.redis_acl import SecuredRedis, needs_tls
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.tcp_proxy import TcpProxy

LATE_S = 0.05
"""Less than the time limit of a request, so that a late announcement meets the next one."""


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs the test on the loop of the fixture `runner`."""

    @wraps(test)
    def run(*arguments: Any, runner: asyncio.Runner, **fixtures: Any) -> None:
        runner.run(test(*arguments, **fixtures))

    signature = inspect.signature(test)
    runner = inspect.Parameter("runner", inspect.Parameter.KEYWORD_ONLY)
    parameters = [*signature.parameters.values(), runner]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def chorale(runner: asyncio.Runner, redis_server: RedisServer, redis_client: Redis) -> Iterator[AsyncChorale]:
    client = AsyncChorale(redis_server.url)
    yield client
    runner.run(client.aclose())


@pytest.fixture(params=[Chorale, ClientOnALoop], ids=["blocking", "on a loop"])
def new_client(request: pytest.FixtureRequest) -> Iterator[NewClient]:
    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(closing(request.param(*args, **options)))


class TestAsking(AskingContract):
    @on_a_loop
    async def test_an_end_before_the_subscription_is_found_although_the_acceptance_is_known_last(
        self, chorale: AsyncChorale, redis_client: Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        request, enqueue = make_request("bread", timeout_s=60), chorale._enqueue
        write, has_ended = Announcements._write, asyncio.Event()

        async def write_late(announcements: Announcements) -> None:
            await has_ended.wait()
            await write(announcements)

        async def enqueue_and_end(*args: Any) -> Any:
            accepted = await enqueue(*args)
            SingleSteps(redis_client).finish(request.request_id, by="fusion", body=BODY, is_complete=True)
            has_ended.set()
            await soon(lambda: bool(chorale._announcements._subscribed))
            return accepted

        monkeypatch.setattr(Announcements, "_write", write_late)
        monkeypatch.setattr(chorale, "_enqueue", enqueue_and_end)
        async with asyncio.timeout(30):
            assert (await chorale.ask(request)).status == "complete"

    @on_a_loop
    async def test_a_refusal_announced_late_does_not_end_the_same_request_sent_again(
        self, chorale: AsyncChorale, redis_client: Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hear = Announcements._receive

        def hear_late(self: Announcements, message: Sequence[Any]) -> None:
            asyncio.get_running_loop().call_later(LATE_S, hear, self, message)

        await chorale.retrieve("warm", timeout_s=0.1)
        monkeypatch.setattr(Announcements, "_receive", hear_late)
        request = make_request("bread", timeout_s=0.1)
        redis_client.hset(OVERLOAD, "retry_after_ms", 1_500)
        assert (await chorale.ask(request)).status == Status.REFUSED
        redis_client.delete(OVERLOAD)
        assert (await chorale.ask(request)).status == Status.FAILED, "nobody serves"


class TestHandles(HandleContract): ...


class TestEvents(EventsContract): ...


class TestDocuments(DocumentsContract): ...


async def soon(so: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not so():
            await asyncio.sleep(0.01)


class TestManyRequests(ClientContract):
    """Requests that come together use few connections, and each stays a request of its own."""

    @on_a_loop
    async def test_requests_of_one_moment_are_64_requests(
        self, chorale: AsyncChorale, redis_client: Redis, service: SingleSteps
    ) -> None:
        handles = await asyncio.gather(
            *(chorale.submit(f"bread {n}", timeout_s=1 + n / 10, tags={"n": str(n)}) for n in range(64))
        )
        assert len({handle.id for handle in handles}) == 64
        accepted = [handle.accepted for handle in handles if handle.accepted]
        assert [one.deadline_ms - one.accepted_at_ms for one in accepted] == [
            1_000 + 100 * n for n in range(64)
        ]
        assert redis_client.llen(QUEUE_RETRIEVE) == 64
        for handle in handles:
            self.end(service, handle.id)
        entries = cast("list[tuple[bytes, dict[bytes, bytes]]]", redis_client.xrange(OUTBOX))
        rows = [rows_of(parse(fields), hash_key=None).request for _, fields in entries]
        assert [row["tags"]["n"] for row in rows] == [str(n) for n in range(64)]

    @on_a_loop
    async def test_an_error_of_one_is_no_error_of_the_others(self, chorale: AsyncChorale) -> None:
        half = "\ud800"
        calls = [
            chorale.submit("bread", request_id="one"),
            chorale.submit("salt", request_id="one"),
            chorale.answer(half),
            chorale.cancel(half),
            chorale.submit("salt", request_id="two"),
            chorale.submit("salt", request_id="two"),
        ]
        results: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
        outcomes = [one.state if isinstance(one, AsyncHandle) else type(one) for one in results]
        # Calls of one moment come in any order.
        assert (len(outcomes), outcomes[2:4]) == (6, [UnicodeEncodeError, UnicodeEncodeError])
        assert set(outcomes[:2]) == {"new", RequestIdConflict}
        assert set(outcomes[4:]) == {"new", "known"}


async def cancel_when(doing: Coroutine[Any, Any, Any], so: Callable[[], Any]) -> None:
    task = asyncio.create_task(doing)
    await soon(so)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class TestCancelledTasks:
    """A task that is cancelled no longer wants its answer."""

    @on_a_loop
    async def test_a_cancelled_task_cancels_its_request(
        self, chorale: AsyncChorale, redis_client: Redis
    ) -> None:
        request = make_request("bread", timeout_s=30)
        await cancel_when(chorale.ask(request), lambda: redis_client.llen(QUEUE_RETRIEVE))
        assert (await chorale.answer(request.request_id, wait_s=10)).status == Status.CANCELLED

    @on_a_loop
    async def test_a_task_cancelled_before_the_acceptance_is_known_cancels_its_request(
        self, redis_server: RedisServer, redis_client: Redis
    ) -> None:
        async with AsyncChorale(redis_server.url) as client:
            await client.submit("warm")
            task = asyncio.create_task(client.retrieve("bread", request_id="early", timeout_s=30))
            while not client._commands._under_way:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        # Closing has sent everything.
        assert redis_client.exists(entry_key("early")) == 0

    @on_a_loop
    async def test_the_request_of_another_caller_goes_on(
        self, redis_server: RedisServer, redis_client: Redis
    ) -> None:
        request = make_request("bread", timeout_s=30)
        async with AsyncChorale(redis_server.url) as client:
            assert (await client.submit_request(request)).state == "new"
            listeners = client._announcements._listeners
            await cancel_when(
                client.ask(request),
                lambda: any(listener._is_accepted for waiting in listeners.values() for listener in waiting),
            )
        # Closing has sent everything.
        assert redis_client.hget(entry_key(request.request_id), "state") == b"accepted"


class TestOneLoop(ClientContract):
    @on_a_loop
    async def test_a_lost_connection_loses_no_end(
        self, chorale: AsyncChorale, redis_client: Redis, service: SingleSteps
    ) -> None:
        requests = [make_request(f"bread {n}", timeout_s=30) for n in range(20)]
        waiting = [asyncio.create_task(chorale.ask(request)) for request in requests]
        await soon(lambda: redis_client.llen(QUEUE_RETRIEVE) == 20)
        for half in (requests[:10], requests[10:]):
            # Both kinds of connections are gone, and the ends come before the client has new ones.
            redis_client.client_kill_filter(_type="pubsub", skipme=True)
            redis_client.client_kill_filter(_type="normal", skipme=True)
            for request in half:
                self.end(service, request.request_id)
            await soon(lambda: len(chorale._announcements._subscribed) >= 10)
        async with asyncio.timeout(20):  # long before the deadline
            answers = await asyncio.gather(*waiting)
        assert [answer.status for answer in answers] == ["complete"] * 20

    @on_a_loop
    async def test_a_hung_server_holds_no_other_task_of_the_loop(self, own_redis_server: RedisServer) -> None:
        async with AsyncChorale(own_redis_server.url) as client:
            await client.submit("bread")
            own_redis_server.pause()
            try:
                asking = asyncio.create_task(client.retrieve("salt", timeout_s=1))
                upserting = asyncio.create_task(client.upsert("docs", [{"id": "tea", "text": "tea"}]))
                turns = 0
                while not asking.done():
                    await asyncio.sleep(0.005)
                    turns += 1
                assert turns >= 10
                with pytest.raises(ServiceUnavailable, match="Redis does not answer"):
                    await asking
            finally:
                own_redis_server.resume()
            await asyncio.wait([upserting])
            assert (await client.submit("salt")).state == "new"

    @on_a_loop
    async def test_a_closed_client_says_so_to_all_who_wait_or_ask(self, chorale: AsyncChorale) -> None:
        waiting = asyncio.create_task(chorale.retrieve("bread", timeout_s=30))
        handle = await chorale.submit("rice", timeout_s=30)
        reading = asyncio.create_task(handle.answer(30))
        await soon(lambda: len(chorale._announcements._subscribed) == 2)
        await chorale.aclose()
        for asking in (waiting, reading, chorale.submit("salt")):
            with pytest.raises(ServiceUnavailable, match="the client is closed"):
                await asking

    @on_a_loop
    async def test_calls_leave_no_channel_no_connection_and_no_task(
        self, redis_server: RedisServer, redis_client: Redis, service: SingleSteps
    ) -> None:
        """Half of the calls are answered, the others are cancelled or not waited for."""
        stop = threading.Event()

        def serve() -> None:
            """Ends what comes, as the pipeline would."""
            while not stop.wait(0.01):
                for key in redis_client.scan_iter(entry_key("wanted-*"), count=1_000):
                    self.end(service, key.decode().removeprefix(entry_key("")))

        def ours() -> int:
            return sum(connection["name"] == "ours" for connection in redis_client.client_list())

        def other_tasks() -> set[str]:
            return {task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}}

        async def some(client: AsyncChorale, first: int) -> None:
            for number in range(first, 100, 20):
                if number % 2:
                    await client.retrieve("bread", request_id=f"wanted-{number}", timeout_s=30)
                    continue
                unwanted = client.retrieve("bread", request_id=f"not-{number}", timeout_s=30)
                asking = asyncio.create_task(unwanted)
                await asyncio.sleep(0.001 * (number % 3))
                asking.cancel()
                await asyncio.wait([asking])
                assert asking.cancelled()

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            async with AsyncChorale(f"{redis_server.url}&client_name=ours") as client:
                await asyncio.gather(*(some(client, first) for first in range(20)))
                await soon(lambda: redis_client.pubsub_channels() == [])
                assert ours() <= 1 + MOST_CONNECTIONS
                # The last cancelled calls still tell Redis so.
                await soon(lambda: other_tasks() == {"chorale-announcements"})
                assert not client._announcements._listeners
            assert asyncio.all_tasks() == {asyncio.current_task()}
            await soon(lambda: ours() == 0)
            assert redis_client.keys(entry_key("*")) == []
        finally:
            stop.set()
            serving.join()


def test_the_subscription_of_a_closed_client_is_closed_although_a_server_with_tls_ends_slowly() -> None:
    needs_tls()

    async def ask(url: str, proxy: TcpProxy) -> None:
        def sockets() -> int:
            connections = psutil.Process().net_connections("tcp4")
            return len([one for one in connections if one.raddr and one.raddr.port == proxy.port])

        async with AsyncChorale(url) as client:
            await client.retrieve("who pays?", timeout_s=2)
            before = sockets()
            proxy.delay_s = 0.2
            await client._announcements.close()
            assert sockets() == before - 1

    with SecuredRedis() as server, TcpProxy(("127.0.0.1", server.tls_port)) as proxy:
        url = server.caller_url.replace(f":{server.tls_port}/", f":{proxy.port}/")
        asyncio.run(ask(url, proxy))


def test_a_client_that_is_used_in_another_event_loop_says_so(redis_server: RedisServer) -> None:
    client = AsyncChorale(redis_server.url)

    async def once() -> None:
        await client.submit("who pays?")

    with asyncio.Runner() as first:
        first.run(once())
        with pytest.raises(RuntimeError, match="make one for each event loop"), asyncio.Runner() as second:
            second.run(once())
        first.run(client.aclose())
