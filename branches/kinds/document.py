"""The `document` kind: the documents that match a request's filters, in the order of a metadata field."""

from __future__ import annotations

from chorale_client.words import Stage
from pydantic import Field, field_validator

from branches.part import Part
from models.declared import Declared
from models.errors import NotConfigured
from models.extensions import BranchKind
from models.hits import Ranking
from search.protocol import Lists


class ListingOptions(Declared):
    """The order of the list."""

    order_by: str = Field("published_at", min_length=1, max_length=256)
    """A metadata field; documents without this field come last."""
    descending: bool = True
    """Newest, or largest, first."""

    @field_validator("order_by")
    @classmethod
    def _is_metadata(cls, value: str) -> str:
        if value in ("document_id", "source"):
            raise ValueError(f"{value!r} is no metadata, although filters accept it")
        return value


def search_document(part: Part) -> list[Ranking]:
    """The same list for every question.

    Without filters there are no hits, because the newest of all documents would be in every answer.
    """
    started_s, request = part.clock(), part.request
    if not request.filters:
        part.timed(Stage.SEARCH, started_s, "no filters")
        return [Ranking() for _ in part.questions]
    if not isinstance(part.store, Lists):
        raise NotConfigured(f"the store {part.branch.store!r} cannot list documents by their metadata")
    options = ListingOptions(**part.branch.options)
    ranking = part.store.list_documents(
        request.namespace,
        part.search(part.branch.depth),
        order_by=options.order_by,
        descending=options.descending,
    )
    part.timed(Stage.SEARCH, started_s, f"by {options.order_by}")
    return [ranking for _ in part.questions]


KIND = BranchKind(search_document, options=ListingOptions, asks_http=False)
