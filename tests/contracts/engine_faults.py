"""What the store of a server promises when that server is gone or silent: one sentence, in time, and an answer afterwards.

Inherit the class and provide the fixtures `place` (host and port of a real server) and `through`; the namespace `ns` was written
by `filled`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from typing import Any, ClassVar

import pytest
from chorale_client.wire_names import Reason

from models.errors import StoreTimeout, StoreUnavailable
from search.protocol import Search
from tests.contracts.store_documents import document
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.stores.known_index import index_of
from tests.support.waiting import until

Through = Callable[..., AbstractContextManager[Any]]
"""Opens a store with the options of its kind, whose server is behind the fixture `proxy`."""

DOCUMENTS = 20


def filled(store: Any) -> None:
    store.create(index_of())
    store.write(index_of(), [document(f"d{n:03}", "pear") for n in range(DOCUMENTS)], ())


def count(store: Any, timeout_s: float = 30) -> int:
    [ranking] = store.search_text("ns", ["pear"], Search(depth=1_000, timeout_s=timeout_s))
    return len(ranking.hits)


CALLS: dict[str, Callable[[Any, float], object]] = {
    "search_text": lambda store, limit_s: count(store, timeout_s=limit_s),
    "score_text": lambda store, limit_s: store.score_text("ns", ["pear"], [["d000#0"]], timeout_s=limit_s),
    "has": lambda store, _: store.has(index_of()),
    "entries": lambda store, _: list(store.entries(index_of())),
    "write": lambda store, _: store.write(index_of(), [document("d000", "pear")], ()),
    "delete": lambda store, _: store.write(index_of(), (), ["nobody"]),
}


class EngineFaults:
    gone: ClassVar[str]
    """What follows the port in the failure for a server that is gone."""
    lost_at: ClassVar[Sequence[bytes]] = (b"pear",)
    """What a call sends at the moments in which it may lose its connection."""

    @pytest.fixture
    def proxy(self, place: tuple[str, int]) -> Iterator[TcpProxy]:
        with TcpProxy(place) as proxy:
            yield proxy

    def test_a_connection_is_reused_and_a_broken_one_replaced(
        self, through: Through, proxy: TcpProxy
    ) -> None:
        with through() as store:
            assert [count(store) for _ in range(10)] == [DOCUMENTS] * 10
            assert proxy.accepted == 1
            for _ in range(3):
                proxy.cut()
                assert count(store) == DOCUMENTS

    def test_connections_that_a_balancer_has_forgotten_are_replaced(
        self, through: Through, proxy: TcpProxy
    ) -> None:
        """The connections stay open, and nothing is answered on them any more."""
        with through(connections=2) as store:
            count(store)
            proxy.drop()
            for _ in range(3):
                with suppress(StoreTimeout):
                    count(store, timeout_s=0.5)
            assert count(store) == DOCUMENTS

    def test_a_connection_that_is_lost_during_a_call_is_replaced(
        self, through: Through, proxy: TcpProxy
    ) -> None:
        for moment in self.lost_at:
            with through() as store, ThreadPoolExecutor(1) as threads:
                proxy.stalls_at = moment
                counting = threads.submit(count, store)
                until(lambda: proxy.is_stalled)
                proxy.stalls_at = None  # the second attempt comes at once
                proxy.cut()
                proxy.flow()
                assert counting.result() == DOCUMENTS

    def test_a_server_that_is_gone_is_unavailable_before_the_time_is_over(
        self, through: Through, proxy: TcpProxy
    ) -> None:
        with through(timeout_s=30.0, write_timeout_s=30.0) as store:
            count(store)
            proxy.is_refusing = True
            proxy.cut()
            for name, call in CALLS.items():
                with pytest.raises(StoreUnavailable, match=f":{proxy.port}.*{self.gone}") as raised:
                    call(store, 30)
                assert raised.value.reason == Reason.UNAVAILABLE, name
            proxy.is_refusing = False
            assert count(store) == DOCUMENTS

    def test_a_silent_server_costs_no_more_than_the_time_given_and_keeps_no_thread(
        self, through: Through, proxy: TcpProxy
    ) -> None:
        with through(timeout_s=0.5, write_timeout_s=0.5, connections=2) as store:
            count(store)
            proxy.stall()
            for name, call in CALLS.items():
                with pytest.raises(StoreTimeout, match=r"did not answer|came free in time") as raised:
                    call(store, 0.5)
                assert raised.value.reason == Reason.TIMEOUT, name
            proxy.flow()
            assert count(store) == DOCUMENTS

    def test_threads_that_wait_for_a_connection_wait_no_longer_than_their_time(
        self, through: Through, proxy: TcpProxy
    ) -> None:
        with through(connections=1) as store, ThreadPoolExecutor(1) as threads:
            count(store)
            proxy.stalls_at = b"pear"
            first = threads.submit(count, store, 60)
            until(lambda: proxy.is_stalled)
            with pytest.raises(StoreTimeout, match="raise the store's `connections`"):
                count(store, timeout_s=0.5)
            proxy.flow()
            assert first.result() == DOCUMENTS
