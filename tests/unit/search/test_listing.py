"""The embedded store lists as every store that lists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from models.errors import StoreTimeout
from search.embedded.store import EmbeddedStore
from search.protocol import Store
from tests.contracts.listing import ListingContract


class TestEmbeddedListing(ListingContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = EmbeddedStore(tmp_path / "corpus")
        yield store
        store.close()

    def test_a_listing_ends_with_its_time(self, filled: Store) -> None:
        with pytest.raises(StoreTimeout):
            self.listed(filled, timeout_s=-1)
