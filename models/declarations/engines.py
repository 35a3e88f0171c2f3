"""The declarations of engines that other servers run: their addresses, and how their indexes are built and asked."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from models.declarations.extensions import Declared, Variable


def _address(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port is None:
        raise ValueError("an address has a scheme, a host and a port: https://host:9200")
    if "@" in parts.netloc:
        raise ValueError(
            "an address must not contain a login: name a variable in api_key_env or password_env"
        )
    return value


Address: TypeAlias = Annotated[str, AfterValidator(_address)]


class ElasticsearchEndpoint(Declared):
    """The options of a store of kind `elasticsearch`."""

    model_config = ConfigDict(hide_input_in_errors=True)

    url: Address | Annotated[list[Address], Field(min_length=1)] = "http://127.0.0.1:9200"
    """One address, or several of one cluster."""
    api_key_env: Variable | None = None
    """The environment variable with the key, encoded as Kibana shows it; the file never contains the key itself."""
    username: str | None = None
    password_env: Variable | None = None
    """The environment variable with the password."""
    ca_file: str | None = None
    """Certificates (PEM) that verify the server's certificate.  Not set: the system's certificates."""
    client_cert_file: str | None = None
    """Client certificate (PEM) for a server that asks for one."""
    client_key_file: str | None = None
    prefix: str = Field("chorale", pattern=r"^[a-z][a-z0-9]{0,31}$")
    """Prefix of all index names; installations that share a cluster need different ones."""
    analyser: str | dict[str, Any] = Field("chorale", min_length=1)
    """`chorale`: our own analyser for the namespace's language, with the terms and scores of the embedded store.
    Otherwise the name of an analyser of the server (`english`, `cjk`), or a definition as in an index's
    `settings.analysis` with an analyser named `chorale`."""
    vectors: bool = False
    """Whether the store also searches vectors."""
    ef_construction: int = Field(200, ge=10, le=3_200)
    """HNSW: candidates when a vector is inserted; applies to new namespaces."""
    m: int = Field(16, ge=2, le=512)
    """HNSW: links of a vector; applies to new namespaces."""
    candidates: int = Field(200, ge=1, le=10_000)
    """HNSW: candidates of a search, at least twice the number of hits."""
    shards: int = Field(1, ge=1, le=1_024)
    """Shards of each new namespace.  With several, a search first collects word statistics from all of them."""
    replicas: int | None = Field(None, ge=0, le=64)
    """None: one replica if there are at least two nodes, else none."""
    connections: int = Field(16, ge=1, le=1_024)
    """Connections to each node that are kept open: as many as threads that search at once."""
    timeout_s: float = Field(10.0, gt=0, le=300)
    """Time limit for operations outside of requests: lookups, lists, warming."""
    write_timeout_s: float = Field(60.0, gt=0, le=3_600)
    """Time limit for each message with passages, and for creating and dropping a namespace."""

    @field_validator("analyser")
    @classmethod
    def _has_the_name(cls, value: str | dict[str, Any]) -> str | dict[str, Any]:
        if isinstance(value, dict):
            analysers = value.get("analyzer")
            own = analysers.get("chorale") if isinstance(analysers, dict) else None
            if not (isinstance(own, dict) and own):
                raise ValueError(
                    "a definition needs an analyser named chorale: { analyzer = { chorale = { ... } } }"
                )
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> ElasticsearchEndpoint:
        if (self.username is None) != (self.password_env is None):
            raise ValueError("basic authentication needs both username and password_env")
        if self.username is not None and self.api_key_env is not None:
            raise ValueError("set either api_key_env, or username with password_env, not both")
        if self.client_key_file is not None and self.client_cert_file is None:
            raise ValueError("client_key_file needs a client_cert_file")
        files = (self.ca_file, self.client_cert_file)
        if any(file is not None for file in files) and not self.is_secure:
            raise ValueError("ca_file and client_cert_file need addresses that begin with https://")
        return self

    @property
    def addresses(self) -> list[str]:
        return [self.url] if isinstance(self.url, str) else self.url

    @property
    def is_secure(self) -> bool:
        return all(address.startswith("https://") for address in self.addresses)


class OpenSearchEndpoint(ElasticsearchEndpoint):
    """The options of a store of kind `opensearch`: those of `elasticsearch`, without `api_key_env`."""

    api_key_env: None = None
    """OpenSearch takes a username and a password."""
    aws_region: str | None = Field(None, pattern=r"^[a-z]+(-[a-z]+)+-\d$")
    """The region of a domain of Amazon OpenSearch Service, such as `eu-west-1`.  Every request is then signed (AWS Signature Version 4)
    with the credentials that botocore finds: environment, profile, or role."""

    @model_validator(mode="after")
    def _has_one_login(self) -> OpenSearchEndpoint:
        if self.aws_region is not None and self.username is not None:
            raise ValueError("set either aws_region, or username with password_env, not both")
        return self


class PostgresqlEndpoint(Declared):
    """The options of a store of kind `postgresql`."""

    url_env: Variable = "CHORALE_DATABASE_URL"
    """The environment variable with the address, `postgresql://USER:PASSWORD@HOST/DATABASE`; the file never contains the address
    itself."""
    vectors: bool = True
    """Whether the store also searches vectors.  Without them the server needs no pgvector."""
    exact_below: int = Field(20_000, ge=0, le=10_000_000)
    """With fewer passages in a namespace, every vector is compared (exact search).  A namespace that reaches this number gets a graph
    (HNSW)."""
    candidates: int = Field(400, ge=1, le=1_000)
    """HNSW: candidates of a search, at least the number of hits."""
    connections: int = Field(16, ge=1, le=1_024)
    """Connections that a process keeps open at most: as many as threads that search at once."""
    timeout_s: float = Field(10.0, gt=0, le=300)
    """Time limit for operations outside of requests: lookups, warming."""
    write_timeout_s: float = Field(60.0, gt=0, le=3_600)
    """Time limit for each batch of passages, and for creating and dropping a namespace."""


class WeaviateEndpoint(Declared):
    """The options of a store of kind `weaviate`."""

    url: str = Field("http://127.0.0.1:8080", pattern=r"^https?://[^/@\s]+/?$")
    """Address of the REST interface; with `https`, gRPC uses TLS too. SSL_CERT_FILE may name the certificates."""
    grpc_host: str | None = None
    """Host of the gRPC interface; None: the host of `url`."""
    grpc_port: int = Field(50051, ge=1, le=65_535)
    api_key_env: Variable | None = None
    """The environment variable with the key; the file never contains the key itself."""
    collection: str = Field("Chorale", pattern=r"^[A-Z][A-Za-z0-9]{0,63}$")
    """The beginning of the name of the collection."""
    timeout_s: float = Field(10.0, gt=0, le=300)
    """Time limit for operations outside of requests: lookups, lists, creating and dropping namespaces."""
    write_timeout_s: float = Field(60.0, gt=0, le=3_600)
    """Time limit for each message with passages, which waits until they are indexed."""
    texts: bool = True
    """Without effect: titles, texts and metadata are in the documents' database."""
    ef: int = Field(-1, ge=-1, le=10_000)
    """HNSW: candidates of a search; -1: `dynamic_ef_factor` times the hits, within the two bounds."""
    dynamic_ef_min: int = Field(100, ge=1, le=10_000)
    dynamic_ef_max: int = Field(500, ge=1, le=10_000)
    dynamic_ef_factor: int = Field(8, ge=1, le=1_000)
    ef_construction: int = Field(128, ge=4, le=2_000)
    """HNSW: candidates when a vector is inserted; fixed once the collection exists."""
    max_connections: int = Field(32, ge=4, le=2_047)
    """HNSW: edges of a vector; fixed once the collection exists."""
    quantiser: Literal["none", "rq", "bq"] = "none"
    """HNSW: how the graph keeps vectors in memory: `none` as 32-bit numbers, `rq` in 8 bits, `bq` in 1 bit a number.  Hits
    are rescored with the whole vectors.  Fixed once the collection exists."""
    shards: Literal[1] = 1
    """Weaviate keeps each namespace in one shard, and spreads namespaces over its nodes.  Divide the documents into several
    namespaces, or search vectors in Elasticsearch, which has shards."""
    replicas: int = Field(0, ge=0, le=64)
    """Copies of each namespace on further nodes (Weaviate's replication factor, less one); fixed once the collection exists."""
    flat_search_cutoff: int = Field(40_000, ge=0, le=10_000_000)
    """With fewer passages in the namespace or filter, every vector is compared (exact search)."""

    @model_validator(mode="after")
    def _has_two_ports(self) -> WeaviateEndpoint:
        if self.grpc_address == (self.host, self.port):
            raise ValueError(
                f"grpc_port {self.grpc_port} is the port of the url: declare gRPC's own port, or its grpc_host"
            )
        return self

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or "127.0.0.1"

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or (443 if self.is_secure else 80)

    @property
    def is_secure(self) -> bool:
        return self.url.startswith("https:")

    @property
    def grpc_address(self) -> tuple[str, int]:
        return self.grpc_host or self.host, self.grpc_port
