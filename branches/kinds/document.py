"""The `document` kind: what a request's filters let through, in the order of a metadata field."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chorale_client.words import Stage

from config.listing import ListingOptions
from models.errors import NotConfigured
from models.hits import Ranking
from search.protocol import Lists

if TYPE_CHECKING:
    from branches.part import Part


def search_document(part: Part) -> list[Ranking]:
    """One listing for every question, whatever it says.

    Without filters there are no hits: the newest of all documents would come into every answer.
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
        order_by=options.order_by,
        descending=options.descending,
        depth=part.branch.depth,
        filters=request.filters,
        exclude_ids=request.exclude_ids,
        timeout_s=part.left_s,
    )
    part.timed(Stage.SEARCH, started_s, f"by {options.order_by}")
    return [ranking for _ in part.questions]
