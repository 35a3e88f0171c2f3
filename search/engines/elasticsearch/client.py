"""Elasticsearch's own client, its errors, and its form of vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from elastic_transport import ConnectionError as NoConnection
from elastic_transport import (
    ConnectionTimeout,
    NodeConfig,
    SerializationError,
    TlsError,
    TransportError,
    Urllib3HttpNode,
)
from elasticsearch import ApiError, Elasticsearch, UnsupportedProductError

from models.declarations.engines import ElasticsearchEndpoint
from models.errors import StoreUnavailable
from search.engines.elasticsearch.dialect import Dialect, Request
from search.engines.elasticsearch.failures import (
    Server,
    failure,
    no_json,
    no_tls,
    silent,
    stranger,
    unreachable,
    unsent,
)
from search.engines.elasticsearch.filter_conditions import Clause
from search.engines.elasticsearch.timed_pool import TimedPool


class _Node(Urllib3HttpNode):
    """A node whose time limit covers the whole call."""

    def __init__(self, config: NodeConfig) -> None:
        super().__init__(config)
        self.pool: Any = TimedPool(self.pool)


class ElasticsearchDialect(Dialect):
    """Elasticsearch.  Connects with the first request."""

    product, versions, logins = "Elasticsearch", "8 or 9", "api_key_env or password_env"

    def __init__(
        self, endpoint: ElasticsearchEndpoint, *, api_key: str | None = None, password: str | None = None
    ) -> None:
        super().__init__(endpoint)
        security = {
            "api_key": api_key,
            "basic_auth": None if endpoint.username is None else (endpoint.username, password or ""),
            "ca_certs": endpoint.ca_file,
            "client_cert": endpoint.client_cert_file,
            "client_key": endpoint.client_key_file,
        }
        with _translated(self.server):
            self._client = Elasticsearch(
                endpoint.addresses,
                node_class=_Node,
                connections_per_node=endpoint.connections,
                max_retries=0,
                **{name: value for name, value in security.items() if value is not None},  # type: ignore[arg-type]
            )

    def send(self, request: Request, timeout_s: float) -> Any:
        ignored = (404,) if request.may_miss else ()
        with _translated(self.server):
            return (
                self._client.options(request_timeout=timeout_s, ignore_status=ignored)
                .perform_request(
                    request.method,
                    request.path,
                    params=request.params,
                    headers=request.headers,
                    body=request.body,
                )
                .body
            )

    def close(self) -> None:
        self._client.close()

    def vector_index(self, dimension: int) -> tuple[dict[str, Any], dict[str, Any]]:
        graph = {"type": "hnsw", "m": self.endpoint.m, "ef_construction": self.endpoint.ef_construction}
        return {}, {
            "type": "dense_vector",
            "dims": dimension,
            "similarity": "cosine",
            "index_options": graph,
        }

    def vector_query(
        self, vector: list[float], size: int, candidates: int, clauses: Sequence[Clause]
    ) -> dict[str, Any]:
        nearest = {"field": "vector", "query_vector": vector, "k": size, "num_candidates": candidates}
        return {"knn": nearest | {"filter": [*clauses]}}


@contextmanager
def _translated(server: Server) -> Iterator[None]:
    """Translates the client's errors to StageFailure."""
    try:
        yield
    except UnsupportedProductError as error:
        raise stranger(server) from error
    except ApiError as error:
        # Elasticsearch names itself in every answer.  The client checks the name only if the status is 200.
        if error.status_code in (400, 404) and error.meta.headers.get("x-elastic-product") != "Elasticsearch":
            raise stranger(server) from error
        raise failure(server, error.status_code, error.body) from error
    except ConnectionTimeout as error:
        raise silent(server) from error
    except TlsError as error:
        raise no_tls(server, error) from error
    except NoConnection as error:
        raise unreachable(server, error) from error
    except SerializationError as error:
        raise no_json(server) from error
    except TransportError as error:
        raise StoreUnavailable(f"{server}: {str(error)[:200]}") from error
    except Exception as error:
        raise unsent(server, error) from None
