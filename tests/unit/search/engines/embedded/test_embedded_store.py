"""The embedded store keeps every promise of a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.contracts.store import StoreContract
from tests.contracts.store_filters import FiltersContract
from tests.contracts.store_listing import ListingContract
from tests.contracts.store_namespaces import NamespacesContract
from tests.contracts.store_ranking import RankingContract, VectorContract
from tests.contracts.store_rebuilding import RebuildingContract
from tests.contracts.store_writing import WritingContract
from tests.support.stores.one_engine import Emptied, OneEngine, embedded_store


class Embedded(Emptied):
    @pytest.fixture(scope="class")
    @classmethod
    def shared_store(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneEngine]:
        with closing(embedded_store(tmp_path_factory.mktemp("corpus"))) as store:
            yield store


class TestEmbeddedStore(Embedded, StoreContract, ListingContract, RebuildingContract): ...


@pytest.mark.slow
class TestEmbeddedStoreInSegments(
    Embedded, RankingContract, VectorContract, FiltersContract, WritingContract
):
    """A store with vectors in files, in which products of codes find the candidates."""

    @pytest.fixture(autouse=True)
    def _small_segments(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("search.engines.embedded.vector_segments.SIZE", 2)


class TestEmbeddedStoreReadByAnother(Emptied, NamespacesContract, WritingContract):
    """What a write changes is seen by another store, too, which has to catch up."""

    @pytest.fixture(scope="class")
    @classmethod
    def shared_store(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneEngine]:
        folder = tmp_path_factory.mktemp("corpus")
        with closing(embedded_store(folder)) as reader, closing(embedded_store(folder)) as writer:
            for name in ("create", "upsert", "delete", "drop"):
                setattr(reader, name, getattr(writer, name))
            yield reader
