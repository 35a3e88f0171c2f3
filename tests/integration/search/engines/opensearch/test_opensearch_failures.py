"""An OpenSearch that is gone, silent, killed, full, foreign or without k-NN gives one sentence, in time, without a password."""

from __future__ import annotations

import pytest

from models.errors import (
    BadIndex,
    InvalidAnswer,
    StageFailure,
    StoreTimeout,
    StoreUnavailable,
)
from search.engines.opensearch.store import OpenSearchStore
from search.kinds import open_opensearch
from tests.contracts.engine_faults import count, filled
from tests.contracts.search_server_faults import Opens, SearchServerFaults
from tests.contracts.store_documents import document
from tests.support.servers import elasticsearch_server
from tests.support.servers.elasticsearch_server import PRODUCT, Impostor
from tests.support.servers.opensearch_server import NEWEST, OpenSearchServer
from tests.support.stores.known_index import index_of, revisions
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.limit_s(300)]  # a server may start in any of them


@pytest.fixture(scope="module")
def prefix(server: OpenSearchServer) -> str:
    with server.opened("faults") as store:
        filled(store)
    return "faults"


@pytest.mark.parametrize("server", [NEWEST], indirect=True, scope="package")
class TestOpenSearchFaults(SearchServerFaults):
    """The client's part, which is the same for both versions."""

    versions = "2.19 or 3"

    @pytest.fixture
    def place(self, server: OpenSearchServer) -> tuple[str, int]:
        return "127.0.0.1", server.port

    @pytest.fixture
    def opens(self, server: OpenSearchServer) -> Opens:
        return server.opened


def test_the_other_product_is_named_by_each(server: OpenSearchServer) -> None:
    with (
        elasticsearch_server.opened("any", url=server.url) as stranger,
        pytest.raises(InvalidAnswer, match=r"is not Elasticsearch 8 or 9: .* its kind"),
    ):
        count(stranger)
    with (
        server.opened(url=elasticsearch_server.address()) as stranger,
        pytest.raises(InvalidAnswer, match=r"is not OpenSearch 2\.19 or 3: .* its kind"),
    ):
        stranger.create(index_of())


@pytest.mark.long
def test_vectors_on_a_server_without_the_plugin_are_refused_with_what_to_do(
    without_vectors: OpenSearchServer,
) -> None:
    with (
        without_vectors.opened(vectors=True) as store,
        pytest.raises(BadIndex, match=r"no k-NN plugin: .*`vectors = false`"),
    ):
        store.create(index_of())


@pytest.mark.parametrize("server", [NEWEST], indirect=True, scope="package")
def test_what_a_stopped_or_killed_server_had_confirmed_is_there_when_it_comes_back(
    server: OpenSearchServer,
) -> None:
    with server.opened("killed", timeout_s=2, write_timeout_s=2) as store, server.opened("killed") as patient:
        patient.create(index_of())
        patient.write(index_of(), [document("a", "pear")], ())
        assert count(store, timeout_s=30) == 1
        for harm, mend, failure in (
            (server.pause, server.go_on, StoreTimeout),
            (server.kill, server.launch, StoreUnavailable),
        ):
            harm()
            with pytest.raises(failure):
                count(store, timeout_s=2)
            with pytest.raises(failure):
                store.write(index_of(), [document("b", "fig")], ())
            mend()
            until(lambda: is_back(patient), limit_s=120)
            assert revisions(patient) == {"a": "1"}
        patient.write(index_of(), [document("b", "fig")], ())
        assert revisions(patient) == {"a": "1", "b": "1"}


def is_back(store: OpenSearchStore) -> bool:
    try:
        return count(store, timeout_s=30) == 1
    except StageFailure:
        return False


def test_a_password_is_read_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_SECRET", "hunter2\r\n")
    with Impostor(lambda *_: (200, b"{}", PRODUCT)) as impostor:
        store = open_opensearch(
            "texts", {"url": impostor.url, "username": "mé", "password_env": "OUR_SECRET"}
        )
        with pytest.raises(InvalidAnswer, match="is not OpenSearch"):
            store.has(index_of())
        store.close()
        # base64 of mé:hunter2 in UTF-8
        assert impostor.requests[0][1]["authorization"] == "Basic bcOpOmh1bnRlcjI="
