"""The declaration of a Weaviate store: its address, and how vectors are indexed there."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import Field, model_validator

from models.extensions import Declared, Variable


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
