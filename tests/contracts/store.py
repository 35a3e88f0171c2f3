"""What every store promises.  Inherit the class and provide a `store` fixture."""

from __future__ import annotations

from tests.contracts.store_filters import FiltersContract
from tests.contracts.store_namespaces import NamespacesContract
from tests.contracts.store_ranking import (
    AnalyserContract,
    ManyDocumentsContract,
    RankingContract,
    TextContract,
    VectorContract,
)
from tests.contracts.store_writing import WritingContract


class StoreContract(
    NamespacesContract,
    WritingContract,
    RankingContract,
    ManyDocumentsContract,
    FiltersContract,
    TextContract,
    AnalyserContract,
    VectorContract,
):
    """For stores that search text and vectors.  The listings (`ListingContract`) of most stores come from the documents' database."""
