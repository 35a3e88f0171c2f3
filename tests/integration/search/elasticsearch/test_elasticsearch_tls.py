"""An Elasticsearch behind TLS, with a private certificate authority and a client certificate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from models.errors import StageFailure
from search.protocol import Search
from tests.contracts.store_documents import MANIFEST, document
from tests.support.servers.certificates import Certificate
from tests.support.servers.elasticsearch_server import corner, host_and_port, opened
from tests.support.servers.tls_proxy import TlsProxy


@pytest.fixture
def prefix() -> Iterator[str]:
    with corner() as prefix:
        yield prefix


def test_a_private_certificate_authority_is_accepted(prefix: str, tmp_path: Path) -> None:
    own = Certificate.make(tmp_path)
    with TlsProxy(host_and_port(), own) as server:
        url = f"https://127.0.0.1:{server.port}"
        with opened(prefix, url=url) as stranger, pytest.raises(StageFailure, match="ca_file"):
            stranger.generation("ns")
        with opened(prefix, url=url, ca_file=str(own.file)) as store:
            store.create("ns", MANIFEST)
            store.upsert("ns", [document("a", "pear")])
            (ranking,) = store.search_text("ns", ["pear"], Search(depth=3, timeout_s=10))
            store.drop("ns")
    assert [hit.passage_id for hit in ranking.hits] == ["a#0"]


def test_a_client_certificate_is_sent_and_its_absence_is_reported(prefix: str, tmp_path: Path) -> None:
    own, callers = Certificate.make(tmp_path), Certificate.make(tmp_path, "caller")
    with TlsProxy(host_and_port(), own, clients=callers) as server:
        declared = {"url": f"https://127.0.0.1:{server.port}", "ca_file": str(own.file)}
        with opened(prefix, **declared) as without, pytest.raises(StageFailure, match="client_cert_file"):
            without.create("ns", MANIFEST)
        shown = {"client_cert_file": str(callers.file), "client_key_file": str(callers.key_file)}
        with opened(prefix, **declared, **shown) as store:
            store.create("ns", MANIFEST)
            assert [state.name for state in store.namespaces()] == ["ns"]
            store.drop("ns")
