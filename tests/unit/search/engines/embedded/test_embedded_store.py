"""The embedded store keeps every promise of a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.store import StoreContract
from tests.contracts.store_filters import FiltersContract
from tests.contracts.store_listing import ListingContract
from tests.contracts.store_namespaces import NamespacesContract
from tests.contracts.store_ranking import RankingContract, VectorContract
from tests.contracts.store_rebuilding import RebuildingContract
from tests.contracts.store_writing import WritingContract
from tests.support.stores.one_engine import OneEngine, embedded_store


class Embedded:
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[OneEngine]:
        store = embedded_store(tmp_path / "corpus")
        yield store
        store.close()


class TestEmbeddedStore(Embedded, StoreContract, RebuildingContract): ...


@pytest.mark.slow
class TestEmbeddedStoreInSegments(
    Embedded, RankingContract, VectorContract, FiltersContract, WritingContract
):
    """A store with vectors in files, in which products of codes find the candidates."""

    @pytest.fixture(autouse=True)
    def _of_two(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("search.engines.embedded.vector_segments.SIZE", 2)


class TestEmbeddedStoreReadByAnother(NamespacesContract, WritingContract, ListingContract):
    """What a write changes is seen by another store, too, which has to catch up."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[OneEngine]:
        reader = embedded_store(tmp_path / "corpus")
        writer = embedded_store(tmp_path / "corpus")
        for name in ("create", "upsert", "delete", "drop"):
            setattr(reader, name, getattr(writer, name))
        yield reader
        reader.close()
        writer.close()
