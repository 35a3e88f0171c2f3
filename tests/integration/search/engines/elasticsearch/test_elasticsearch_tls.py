"""An Elasticsearch behind TLS, with a private certificate authority and a client certificate."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.errors import StageFailure
from search.protocol import Search
from tests.contracts.store_documents import document
from tests.support.servers.certificates import Certificate
from tests.support.servers.elasticsearch_server import corner, host_and_port, opened
from tests.support.servers.tls_proxy import TlsProxy
from tests.support.stores.known_index import index_of


def test_a_private_authority_is_accepted_and_a_client_certificate_sent_and_their_absence_reported(
    tmp_path: Path,
) -> None:
    own, callers = Certificate.make(tmp_path), Certificate.make(tmp_path, "caller")
    trusted = {"ca_file": str(own.file)}
    shown = {**trusted, "client_cert_file": str(callers.file), "client_key_file": str(callers.key_file)}
    for clients, without, options, missing in (
        (None, {}, trusted, "ca_file"),
        (callers, trusted, shown, "client_cert_file"),
    ):
        with corner() as prefix, TlsProxy(host_and_port(), own, clients=clients) as server:
            url = f"https://127.0.0.1:{server.port}"
            with (
                opened(prefix, url=url, **without) as stranger,
                pytest.raises(StageFailure, match=missing),
            ):
                stranger.create(index_of())
            with opened(prefix, url=url, **options) as store:
                store.create(index_of())
                store.write(index_of(), [document("a", "pear")], ())
                (ranking,) = store.search_text("ns", ["pear"], Search(depth=3, timeout_s=10))
        assert [hit.passage_id for hit in ranking.hits] == ["a#0"]
