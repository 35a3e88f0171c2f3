"""What a product that speaks Elasticsearch's API declares: its client, and how it keeps and searches vectors."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from models.declarations.engines import ElasticsearchEndpoint
from search.engines.elasticsearch.failures import Server
from search.engines.elasticsearch.filter_conditions import Clause


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    body: bytes | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    is_lines: bool = False
    """Whether the body is newline-delimited JSON."""
    may_miss: bool = False
    """Whether 404 is an answer and no failure."""

    @property
    def headers(self) -> dict[str, str]:
        sent = "application/x-ndjson" if self.is_lines else "application/json"
        return {"accept": "application/json"} | ({} if self.body is None else {"content-type": sent})


def as_json(value: Any) -> bytes:
    """Replaces lone surrogates, which no server accepts, by question marks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def as_lines(values: Iterable[Any]) -> bytes:
    return b"".join(as_json(value) + b"\n" for value in values)


class Dialect(ABC):
    """One product's client and forms.  Thread-safe."""

    product: ClassVar[str]
    versions: ClassVar[str]
    """The supported versions, as errors name them."""
    logins: ClassVar[str]
    """The options that name the variables of a login."""

    def __init__(self, endpoint: ElasticsearchEndpoint) -> None:
        self.endpoint = endpoint
        self.server = Server(self.product, self.versions, self.logins, ", ".join(endpoint.addresses))

    @abstractmethod
    def send(self, request: Request, timeout_s: float) -> Any:
        """The answer, parsed, after one attempt; raises StageFailure, and `Transient` if another attempt may succeed."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def vector_index(self, dimension: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings of an index with vectors, and the mapping of the field `vector`.  Scores must be (1 + cosine) / 2."""

    @abstractmethod
    def vector_query(
        self, vector: list[float], size: int, candidates: int, clauses: Sequence[Clause]
    ) -> dict[str, Any]:
        """The part of a search's body that asks for the `size` passages nearest to `vector` that meet all `clauses`."""
