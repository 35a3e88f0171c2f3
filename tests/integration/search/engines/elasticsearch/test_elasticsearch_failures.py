"""A server that is gone, slow, foreign or not Elasticsearch gives one sentence, in time, without a secret."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from typing import ClassVar

import pytest

from models.declarations.engines import ElasticsearchEndpoint
from models.errors import InvalidAnswer, StageFailure, Unauthorised
from search.engines.elasticsearch.store import ElasticsearchStore
from tests.contracts.engine_faults import CALLS, count, filled
from tests.contracts.search_server_faults import Opens, SearchServerFaults, refusal
from tests.support.servers.elasticsearch_server import (
    PRODUCT,
    Answer,
    Impostor,
    corner,
    host_and_port,
    opened,
)
from tests.support.stores.known_index import KnownIndexes

SECRET = "c2VjcmV0OmtleQ=="


@pytest.fixture(scope="module")
def prefix() -> Iterator[str]:
    with corner() as prefix:
        with opened(prefix) as store:
            filled(store)
        yield prefix


class TestElasticsearchFaults(SearchServerFaults):
    versions = "8 or 9"
    headers: ClassVar[dict[str, str]] = PRODUCT

    @pytest.fixture
    def place(self) -> tuple[str, int]:
        return host_and_port()

    @pytest.fixture
    def opens(self) -> Opens:
        return opened


def from_opensearch(status: int, kind: str, reason: str) -> Answer:
    """OpenSearch answers in the form of Elasticsearch, and does not name a product."""
    return *refusal(status, kind, reason), {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("answer", "failure", "message"),
    [
        (
            (*refusal(401, "security_exception", "unable to authenticate"), PRODUCT),
            Unauthorised,
            "check api_key_env",
        ),
        (
            (*refusal(400, "media_type_header_exception", "compatible-with=8"), PRODUCT),
            InvalidAnswer,
            "use 8 or 9",
        ),
        ((200, b"{}", {"content-type": "application/json"}), InvalidAnswer, "not Elasticsearch 8 or 9"),
        (
            from_opensearch(400, "illegal_argument_exception", "unrecognized parameter: [features]"),
            InvalidAnswer,
            "not Elasticsearch 8 or 9: .*`opensearch`",
        ),
        (
            from_opensearch(404, "index_not_found_exception", "no such index"),
            InvalidAnswer,
            "not Elasticsearch 8 or 9: .*`opensearch`",
        ),
    ],
)
def test_an_error_of_elasticsearch_becomes_one_sentence_without_the_key(
    answer: Answer, failure: type[StageFailure], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with Impostor(lambda *_: answer) as server:
        endpoint = ElasticsearchEndpoint(url=server.url, api_key_env="UNUSED")
        store = ElasticsearchStore(endpoint, api_key=SECRET)
        store.reader = KnownIndexes()
        with pytest.raises(failure, match=message) as raised:
            count(store)
        store.close()
        assert server.requests[0][1]["authorization"] == f"ApiKey {SECRET}"
    assert "\n" not in str(raised.value)
    assert SECRET not in f"{raised.value!r} {store!r} {vars(store)} {endpoint!r} {caplog.text}"


def test_the_clients_error_about_an_invalid_key_does_not_show_it() -> None:
    with Impostor(lambda *_: (200, b"{}", PRODUCT)) as server:
        store = ElasticsearchStore(ElasticsearchEndpoint(url=server.url), api_key=f"{SECRET}\n")
        store.reader = KnownIndexes()
        for call in CALLS.values():
            with pytest.raises(StageFailure, match=r"ValueError") as raised:
                call(store, 0.5)
            assert SECRET not in "".join(traceback.format_exception(raised.value))
        store.close()
