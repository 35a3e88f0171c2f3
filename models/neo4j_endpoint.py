"""The declaration of a Neo4j database, or of another that speaks Bolt."""

from __future__ import annotations

from pydantic import Field

from models.extensions import Declared, Variable


class Neo4jEndpoint(Declared):
    """The options of a store of kind `neo4j`."""

    url: str = Field(pattern=r"^(bolt|neo4j)(\+s|\+ssc)?://[^/@\s?#]+/?$")
    """`bolt://HOST:7687`, or `neo4j://` for a cluster; with `+s` over TLS, and with `+ssc` without a check of the certificate."""
    user: str = Field("neo4j", min_length=1)
    password_env: Variable | None = None
    """The environment variable with the password; the file never contains the password itself.  Not set: no login."""
    database: str | None = Field(None, min_length=1)
    """Not set: the user's home database."""
    namespaces: list[str] | None = None
    """The namespaces that the database serves; others find nothing.  Not set: every statement must name `$namespace`."""
    allow_write: bool = False
    """Whether a statement may write."""
    timeout_s: float = Field(10, ge=0.05, le=60)
    """Longest wait for an answer; a request with less time left waits less."""
    connections: int = Field(16, ge=1, le=256)
    """Connections that a process keeps."""
    id_prefix: str | None = None
    """Prefix of every id.  Not set: the store's name and a slash.  Set it to "" if the ids are those of indexed documents."""
    text_chars: int = Field(2_000, ge=0, le=100_000)
    """Maximum characters of a hit's text; texts travel through Redis with the ranking."""
