"""The time limit of a whole answer, and what happens to the connection of an answer that did not end in time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from urllib3 import HTTPConnectionPool
from urllib3.exceptions import ReadTimeoutError

from search.engines.elasticsearch import timed_pool
from search.engines.elasticsearch.timed_pool import TimedPool
from tests.support.servers.elasticsearch_server import Impostor


def test_an_answer_that_does_not_end_in_time_gives_its_connection_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Impostor(lambda *_: (200, b" " * 1_000_000, {})) as server:
        host, _, port = server.url.removeprefix("http://").rpartition(":")
        pool = TimedPool(HTTPConnectionPool(host, int(port), maxsize=1, block=True))
        # The time is over when the first piece of the answer has come.
        moments = iter([0.0, 6.0])
        with monkeypatch.context() as patch:
            patch.setattr(timed_pool, "time", SimpleNamespace(monotonic=lambda: next(moments)))
            with pytest.raises(ReadTimeoutError, match="did not end in time"):
                pool.urlopen("GET", "/", timeout=5)
        assert len(pool.urlopen("GET", "/", timeout=5).data) == 1_000_000
        pool.close()
