"""OpenSearch's own client, its errors, and its form of vectors."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from opensearchpy import ConnectionError as NoConnection
from opensearchpy import (
    ConnectionTimeout,
    OpenSearch,
    SerializationError,
    SSLError,
    TransportError,
    Urllib3AWSV4SignerAuth,
    Urllib3HttpConnection,
)
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from models.declarations.engines import OpenSearchEndpoint
from models.errors import NotConfigured
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


class _FromElasticsearch(Exception):
    """The answer is of the other product, which takes most of our requests."""


class _Pool(TimedPool):
    def urlopen(self, *request: Any, **options: Any) -> Any:
        response = super().urlopen(*request, **options)
        if "x-elastic-product" in response.headers:
            raise _FromElasticsearch
        return response


class _Node(Urllib3HttpConnection):
    """A node whose time limit covers the whole call."""

    def _create_urllib3_pool(self) -> None:
        super()._create_urllib3_pool()
        self.pool: Any = _Pool(self.pool)


class OpenSearchDialect(Dialect):
    """OpenSearch.  Opening it may ask AWS for credentials; the server is connected with the first request.  Raises NotConfigured
    where `aws_region` finds no credentials."""

    product, versions = "OpenSearch", "2.19 or 3"
    logins = "username and password_env, or aws_region and the AWS credentials"

    def __init__(self, endpoint: OpenSearchEndpoint, *, password: str | None = None) -> None:
        super().__init__(endpoint)
        login = b64encode(f"{endpoint.username}:{password or ''}".encode()).decode()
        signer = None if endpoint.aws_region is None else _signer(self.server, endpoint.aws_region)
        with _translated(self.server):
            self._transport = OpenSearch(
                endpoint.addresses,
                connection_class=_Node,
                max_retries=0,
                pool_maxsize=endpoint.connections,
                # The client itself would send only Latin-1.
                headers=None if endpoint.username is None else {"authorization": f"Basic {login}"},
                http_auth=signer,
                ca_certs=endpoint.ca_file,
                client_cert=endpoint.client_cert_file,
                client_key=endpoint.client_key_file,
            ).transport

    def send(self, request: Request, timeout_s: float) -> Any:
        with _translated(self.server):
            return self._transport.perform_request(
                request.method,
                request.path,
                params=dict(request.params),
                body=request.body,
                timeout=timeout_s,
                ignore=(404,) if request.may_miss else (),
                headers=request.headers,
            )

    def close(self) -> None:
        self._transport.close()

    def vector_index(self, dimension: int) -> tuple[dict[str, Any], dict[str, Any]]:
        graph = {"m": self.endpoint.m, "ef_construction": self.endpoint.ef_construction}
        method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil", "parameters": graph}
        return {"index.knn": True}, {"type": "knn_vector", "dimension": dimension, "method": method}

    def vector_query(
        self, vector: list[float], size: int, candidates: int, clauses: Sequence[Clause]
    ) -> dict[str, Any]:
        nearest = {"vector": vector, "k": size, "method_parameters": {"ef_search": candidates}}
        filters = {"filter": {"bool": {"filter": [*clauses]}}} if clauses else {}
        return {"query": {"knn": {"vector": nearest | filters}}}


def _signer(server: Server, region: str) -> Urllib3AWSV4SignerAuth:
    from botocore.exceptions import BotoCoreError, NoCredentialsError
    from botocore.session import Session

    try:
        if (credentials := Session().get_credentials()) is None:
            raise NoCredentialsError
    except BotoCoreError as error:
        raise NotConfigured(f"{server}: aws_region needs AWS credentials: {error}") from error
    return Urllib3AWSV4SignerAuth(credentials, region, "es")


@contextmanager
def _translated(server: Server) -> Iterator[None]:
    """Translates the client's errors to StageFailure."""
    try:
        yield
    except ConnectionTimeout as error:
        raise silent(server) from error
    except SSLError as error:
        raise no_tls(server, error.info) from error
    except NoConnection as error:
        match error.info:
            case _FromElasticsearch():
                raise stranger(server) from error
            case UnicodeDecodeError():
                raise no_json(server) from error
            case ConnectTimeoutError() if not isinstance(error.info, NewConnectionError):
                raise silent(server) from error
            case HTTPError() | OSError():
                raise unreachable(server, error.info) from error
            case _:
                raise unsent(server, error) from None
    except TransportError as error:
        raise failure(server, int(error.status_code), error.info or error.error) from error
    except SerializationError as error:
        raise no_json(server) from error
    except Exception as error:
        raise unsent(server, error) from None
