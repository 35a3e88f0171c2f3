"""The `neo4j` kind of store: a graph in Neo4j."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from models import cypher
from models.endpoints import HttpEndpoint, Neo4jEndpoint
from models.errors import NotConfigured
from models.extensions import StoreKind
from models.hits import Ranking
from search.credentials import usable_key
from search.protocol import Search

if TYPE_CHECKING:
    from search.neo4j.store import Neo4jStore

_COLUMNS = ("id", "title", "text", "published_at", "source_type")


def open_neo4j(name: str, options: Mapping[str, Any]) -> Neo4jStore:
    """Raises NotConfigured where the driver is missing, or the environment has no password."""
    try:
        from search.neo4j.store import Neo4jStore
    except ModuleNotFoundError as error:
        raise NotConfigured(
            f"the store {name!r} needs the driver neo4j ({error}); `make neo4j` or `pip install neo4j` installs it"
        ) from error
    from search.http.answer import AnswerReader

    endpoint = Neo4jEndpoint(**options)
    variable = endpoint.password_env

    def read_rows(
        rows: list[Mapping[str, Any]], columns: Sequence[str], search: Search, score: str | None
    ) -> Ranking:
        """A row is read as a hit of an HTTP endpoint that has the columns as its fields."""
        fields: dict[str, Any] = {column: [column] for column in columns}
        known = {column: fields.pop(column) for column in _COLUMNS if column in fields}
        hits = HttpEndpoint.model_construct(
            url=endpoint.url,
            **known,
            metadata=fields,
            score=[score] if score else None,
            id_prefix=endpoint.id_prefix,
            text_chars=endpoint.text_chars,
            max_hits=max(1, len(rows)),
        )
        return AnswerReader(name, hits).ranking(rows, search)

    password = usable_key(f"the store {name!r}", variable, os.environ.get(variable or ""))
    return Neo4jStore(endpoint, read_rows, password=password)


def check_cypher(options: Mapping[str, Any], statement: str) -> str | None:
    if options.get("allow_write") is not True and (
        complaint := cypher.write_complaint(statement, cypher.READ_ONLY)
    ):
        return complaint
    if options.get("namespaces") is None and "namespace" not in cypher.parameters(statement):
        return "the statement must name $namespace, or the store must say which `namespaces` its whole graph serves"
    return None


KIND = StoreKind(open_neo4j, options=Neo4jEndpoint, check_cypher=check_cypher)
