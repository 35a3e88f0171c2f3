"""What every store promises.  Inherit a class and provide a `store` fixture."""

from __future__ import annotations

from tests.contracts.store_filters import FiltersContract
from tests.contracts.store_listing import ListingContract
from tests.contracts.store_namespaces import NamespacesContract
from tests.contracts.store_ranking import AnalyserContract, RankingContract, TextContract, VectorContract
from tests.contracts.store_writing import WritingContract


class _AnyStoreContract(
    NamespacesContract, WritingContract, RankingContract, FiltersContract, ListingContract
):
    """Documents, rankings and listings, whatever the branch."""


class TextStoreContract(_AnyStoreContract, TextContract, AnalyserContract):
    """For stores that search only text."""

    has_vectors = False


class VectorStoreContract(_AnyStoreContract, VectorContract):
    """For stores that search only vectors."""

    has_text = False


class StoreContract(_AnyStoreContract, TextContract, AnalyserContract, VectorContract):
    """For stores that search text and vectors."""
