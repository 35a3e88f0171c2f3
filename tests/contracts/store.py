"""What every store promises.  Inherit, provide a `store` fixture, and the promises are tested."""

from __future__ import annotations

from tests.contracts.store_filters import FiltersContract
from tests.contracts.store_listing import ListingContract
from tests.contracts.store_namespaces import NamespacesContract
from tests.contracts.store_ranking import AnalyserContract, RankingContract, TextContract, VectorContract
from tests.contracts.store_writing import WritingContract


class _AnyStoreContract(
    NamespacesContract, WritingContract, RankingContract, FiltersContract, ListingContract
):
    """Of documents, of rankings and of listings, whatever the branch."""


class TextStoreContract(_AnyStoreContract, TextContract, AnalyserContract):
    """For stores that search by words alone."""

    has_vectors = False


class VectorStoreContract(_AnyStoreContract, VectorContract):
    """For stores that search by vectors alone."""

    has_text = False


class StoreContract(_AnyStoreContract, TextContract, AnalyserContract, VectorContract):
    """For stores that hold documents and search them both ways."""
