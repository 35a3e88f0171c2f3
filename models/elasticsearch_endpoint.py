"""The declaration of an Elasticsearch store: its address, and how namespaces are built there."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from models.extensions import Declared, Variable


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
