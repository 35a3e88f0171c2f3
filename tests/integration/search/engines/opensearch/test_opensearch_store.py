"""The OpenSearch store keeps every promise of a store, on real servers of both versions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tests.contracts.store import StoreContract
from tests.contracts.store_filters import DrawnFiltersContract
from tests.contracts.store_ranking import TextContract
from tests.contracts.store_rebuilding import RebuildingContract
from tests.contracts.store_writing import WritingContract
from tests.support.servers.opensearch_server import OpenSearchServer
from tests.support.stores.one_engine import Emptied, OneEngine, with_documents

pytestmark = [pytest.mark.slow, pytest.mark.limit_s(300)]  # a server may start in any of them


class TestOpenSearchStore(Emptied, StoreContract, RebuildingContract, DrawnFiltersContract):
    """A store with our own analyser, on each version."""

    @pytest.fixture(scope="class")
    @classmethod
    def shared_store(cls, server: OpenSearchServer) -> Iterator[OneEngine]:
        """One store for all tests of the class."""
        opens = partial(server.opened, "own", vectors=True)
        with opens() as engine, with_documents(engine, another=opens) as store:
            yield store


@pytest.mark.long
class TestWithoutVectors(Emptied, WritingContract, TextContract):
    """A store of words, with an analyser of the server."""

    has_vectors = False

    @pytest.fixture(scope="class")
    @classmethod
    def shared_store(cls, without_vectors: OpenSearchServer) -> Iterator[OneEngine]:
        with without_vectors.opened(analyser="english") as engine, with_documents(engine) as store:
            yield store
