"""An Elasticsearch as a pipeline declares it: where it is, and how namespaces are built there."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator


def _address(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port is None:
        raise ValueError("an address has a scheme, a host and a port: https://host:9200")
    if "@" in parts.netloc:
        raise ValueError(
            "no name and password in the address: name a variable in api_key_env or password_env"
        )
    return value


Address: TypeAlias = Annotated[str, AfterValidator(_address)]
Variable: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class ElasticsearchEndpoint(BaseModel):
    """The options of a store of kind `elasticsearch`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    url: Address | Annotated[list[Address], Field(min_length=1)] = "http://127.0.0.1:9200"
    """One address, or several of one cluster."""
    api_key_env: Variable | None = None
    """The environment variable that has the key, encoded as Kibana shows it: the key itself never stands in a file."""
    username: str | None = None
    password_env: Variable | None = None
    """The environment variable that has the password."""
    ca_file: str | None = None
    """Certificates (PEM) that the server's is checked against.  Not set: the system's."""
    client_cert_file: str | None = None
    """Shown to a server that asks for one (PEM)."""
    client_key_file: str | None = None
    prefix: str = Field("chorale", pattern=r"^[a-z][a-z0-9]{0,31}$")
    """Begins the names of all indices: installations that share a cluster differ in it."""
    analyser: str | dict[str, Any] = Field("chorale", min_length=1)
    """`chorale`: our own chain of the namespace's language, with the terms and scores of the embedded store.  Else
    the name of one of the server's (`english`, `cjk`), or a definition as in an index's `settings.analysis`, whose
    analyser is called `chorale`."""
    vectors: bool = False
    """Whether it is searched by vectors, too."""
    ef_construction: int = Field(200, ge=10, le=3_200)
    """HNSW: candidates when a vector is inserted; of namespaces created from now on."""
    m: int = Field(16, ge=2, le=512)
    """HNSW: links of a vector; of namespaces created from now on."""
    candidates: int = Field(200, ge=1, le=10_000)
    """HNSW: the fewest candidates of a search; twice its hits where that is more."""
    shards: int = Field(1, ge=1, le=1_024)
    """Of each namespace created from now on.  With several, a search first collects word statistics from all."""
    replicas: int | None = Field(None, ge=0, le=64)
    """None: one where there are two nodes, none on a single one."""
    connections: int = Field(16, ge=1, le=1_024)
    """Kept open to each node: as many as threads of a process that ask at once."""
    timeout_s: float = Field(10.0, gt=0, le=300)
    """For what a request does not limit: lookups, lists, warming."""
    write_timeout_s: float = Field(60.0, gt=0, le=3_600)
    """For each message with passages, and for making and dropping namespaces."""

    @field_validator("analyser")
    @classmethod
    def _has_the_name(cls, value: str | dict[str, Any]) -> str | dict[str, Any]:
        if isinstance(value, dict):
            analysers = value.get("analyzer")
            own = analysers.get("chorale") if isinstance(analysers, dict) else None
            if not (isinstance(own, dict) and own):
                raise ValueError(
                    "a definition has an analyser named chorale: { analyzer = { chorale = { ... } } }"
                )
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> ElasticsearchEndpoint:
        if (self.username is None) != (self.password_env is None):
            raise ValueError("basic authentication takes both username and password_env")
        if self.username is not None and self.api_key_env is not None:
            raise ValueError("api_key_env, or username with password_env, not both")
        if self.client_key_file is not None and self.client_cert_file is None:
            raise ValueError("client_key_file belongs to a client_cert_file")
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
