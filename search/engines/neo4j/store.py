"""A Neo4j database as a read-only source."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

import neo4j
from neo4j.exceptions import DriverError, Neo4jError
from neo4j.graph import Entity

from models.declarations.sources import Neo4jEndpoint
from models.errors import (
    BadIndex,
    InvalidAnswer,
    NotConfigured,
    StageFailure,
    StoreTimeout,
    StoreUnavailable,
    Unauthorised,
)
from models.event_loop import PerLoop
from models.hits import Ranking
from search.cypher_rows import MAX_ROWS, CypherAlone, ranked, with_limits
from search.deadline import Deadline, on_loop
from search.protocol import Search
from search.texts_with_hits import TextsWithHits

_MEANINGS: tuple[tuple[str, type[StageFailure]], ...] = (
    ("Neo.ClientError.Security.", Unauthorised),
    ("Neo.ClientError.Transaction.TransactionTimedOut", StoreTimeout),
    ("Neo.ClientError.Database.", BadIndex),
    ("Neo.ClientError.Statement.", NotConfigured),
    ("Neo.ClientError.Procedure.", NotConfigured),
    ("Neo.TransientError.", StoreUnavailable),
    ("Neo.DatabaseError.", StoreUnavailable),
)
"""The failure for the beginning of each code."""
_PLACE = re.compile(r" \((line \d+, column \d+) \(offset: \d+\)\).*", re.DOTALL)


def failure_of(error: Exception, url: str) -> StageFailure:
    """A wrong statement has its line and column first, because the server's message may be long."""
    if isinstance(error, Neo4jError):
        code, message = error.code or "", error.message or ""
        kind = next((kind for begin, kind in _MEANINGS if code.startswith(begin)), InvalidAnswer)
        place = _PLACE.search(message)
        where = f"{place[1]} of the statement: " if place else ""
        return kind(f"{url}: {where}{code.rpartition('.')[2]}: {_PLACE.sub('', message)}"[:500])
    if isinstance(error, DriverError | OSError):
        return StoreUnavailable(f"{url} cannot be reached, or closed the connection ({type(error).__name__})")
    return InvalidAnswer(f"{url}: {type(error).__name__}: {error}"[:300])


Row = Mapping[str, Any]
ReadRows = Callable[[list[Row], Sequence[str], Search, str | None], Ranking]
"""Rows, their columns, the search and the score's column -> a ranking with texts."""


class Neo4jStore(CypherAlone, TextsWithHits):
    """Implements `search.protocol.Searches` and `RunsCypher`; thread-safe.

    A transaction may only read unless the endpoint says `allow_write`; the server refuses another.
    """

    def __init__(self, endpoint: Neo4jEndpoint, read_rows: ReadRows, *, password: str | None = None) -> None:
        self._endpoint, self.subject = endpoint, endpoint.url
        self._read_rows = read_rows
        self._auth = None if password is None else neo4j.basic_auth(endpoint.user, password)
        self._drivers = PerLoop(self._driver, lambda driver: driver.close())

    def names_in(self, namespace: str, text: str, *, timeout_s: float) -> list[str]:
        return []  # the statement knows which of its properties are names

    def search_cypher(
        self,
        namespace: str,
        statement: str,
        values: Sequence[Mapping[str, Any]],
        search: Search,
        *,
        score: str | None = None,
    ) -> list[Ranking]:
        endpoint = self._endpoint
        if endpoint.namespaces is not None and namespace not in endpoint.namespaces:
            return [Ranking() for _ in values]
        deadline = Deadline(min(search.timeout_s, endpoint.timeout_s), endpoint.url)
        parameter_sets = [with_limits(parameters, namespace, search) for parameters in values]
        answers = on_loop(self._run(statement, parameter_sets, deadline), deadline)
        return [
            self._read_rows(ranked(rows, columns, score), columns, search, score) for rows, columns in answers
        ]

    def close(self) -> None:
        self._drivers.close()

    async def _run(
        self, statement: str, values: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> list[tuple[list[Row], Sequence[str]]]:
        """Rows and columns for each set of values.  The cancelled call of a hung server ends its connection."""
        mode = neo4j.WRITE_ACCESS if self._endpoint.allow_write else neo4j.READ_ACCESS
        answers: list[tuple[list[Row], Sequence[str]]] = []
        try:
            driver, database = self._drivers.get(), self._endpoint.database
            async with driver.session(database=database, default_access_mode=mode) as session:
                for parameters in values:
                    query = neo4j.Query(statement, timeout=deadline.check())
                    result = await session.run(query, dict(parameters))
                    records = await result.fetch(MAX_ROWS)
                    rows: list[Row] = [
                        {name: plain(value) for name, value in dict(record).items()} for record in records
                    ]
                    answers.append((rows, result.keys()))
                    await result.consume()
        except (StageFailure, TimeoutError):
            raise
        except Exception as error:
            raise failure_of(error, self._endpoint.url) from error
        return answers

    def _driver(self) -> neo4j.AsyncDriver:
        endpoint = self._endpoint
        return neo4j.AsyncGraphDatabase.driver(
            endpoint.url,
            auth=self._auth,
            max_connection_pool_size=endpoint.connections,
            connection_timeout=endpoint.timeout_s,
            connection_acquisition_timeout=endpoint.timeout_s,
            liveness_check_timeout=1.0,
            notifications_min_severity="OFF",
            telemetry_disabled=True,
            user_agent="chorale",
        )


def plain(value: Any) -> Any:
    """A value of the database as JSON: a node or relation by its properties, a moment in ISO 8601; None for what JSON lacks."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, list | tuple):
        return [plain(element) for element in value]
    if isinstance(value, Entity | Mapping):
        return {name: plain(element) for name, element in value.items()}
    return value.iso_format() if hasattr(value, "iso_format") else None
