"""The `graph` kind of store: the documents of another store as a graph in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from models.cypher import write_complaint
from models.errors import NotConfigured
from models.extensions import Declared, Need, StoreKind

if TYPE_CHECKING:
    from search.graph.building import Documents
    from search.graph.derived_graph import DerivedGraph


class GraphOptions(Declared):
    documents: str = Field(min_length=1)
    """The store whose documents are the nodes."""
    links: dict[
        Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$")], Annotated[str, Field(min_length=1)]
    ] = Field(min_length=1)
    """The metadata field with the targets, a text or a list of texts, by the name of the relation."""


def open_graph(
    name: str, options: Mapping[str, Any], *, documents: Documents, needs: Collection[Need]
) -> DerivedGraph:
    try:
        from search.graph.derived_graph import DerivedGraph
    except ModuleNotFoundError as error:
        raise NotConfigured(
            f"the store {name!r} needs kglite ({error}); `make graph` or `pip install kglite` installs it"
        ) from error
    return DerivedGraph(name, documents, GraphOptions(**options).links, is_warmed="graph" in needs)


def check_cypher(options: Mapping[str, Any], statement: str) -> str | None:
    return write_complaint(statement, "a graph of documents is only read")


KIND = StoreKind(open_graph, options=GraphOptions, documents_of="documents", check_cypher=check_cypher)
