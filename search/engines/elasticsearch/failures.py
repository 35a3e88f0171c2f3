"""The failures of a store, for the errors that its server reports and for answers that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from models.errors import (
    BadIndex,
    InvalidAnswer,
    StageFailure,
    StoreTimeout,
    StoreUnavailable,
    Unauthorised,
)
from search.server_store import MissingIndex, Transient

TRANSIENT = frozenset({429, 502, 503, 504})
"""Statuses of a server that is busy or starting."""

_NO_ANALYSER = re.compile(
    r"analyzer \[.*\] has not been configured|failed to find .*(analyzer|tokenizer|filter)"
)


_NO_KNN = re.compile(r"No handler for type \[knn_vector\]|unknown setting \[index\.knn\]")


@dataclass(frozen=True, slots=True)
class Server:
    """The name of the server in failures."""

    product: str
    versions: str
    logins: str
    """The options that name the variables of a login."""
    address: str
    """All addresses."""

    def __str__(self) -> str:
        return f"{self.product} at {self.address}"


class Busy(Transient):
    """The server says that it is busy or starting."""


class TooLarge(BadIndex):
    """The server takes no request of this size."""


@contextmanager
def readable(server: Server) -> Iterator[None]:
    """While an answer is read, an unexpected structure becomes InvalidAnswer."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InvalidAnswer(
            f"{server} answered in an unknown format ({type(error).__name__}: "
            f"{str(error)[:100]}): is its version {server.versions}?"
        ) from error


def failure(server: Server, status: int, body: Any) -> StageFailure:
    """The failure for an error that the server reported, with what to do."""
    kind, reason = _cause(body)
    if kind == "cluster_block_exception" and status == 403:
        return StoreUnavailable(f"{server} allows no writes now: {reason}")
    if status in (401, 403):
        return Unauthorised(
            f"{server} refuses our credentials ({status}): check {server.logins}, and "
            f"the rights on the indices: {reason}"
        )
    if kind == "index_not_found_exception":
        return MissingIndex(f"{server} has no such index: {reason}")
    if "maximum normal shards open" in reason or "maximum shards open" in reason:
        return BadIndex(
            f"the cluster at {server.address} takes no more shards, so no more namespaces: add a node, drop namespaces, or "
            f"raise cluster.max_shards_per_node: {reason}"
        )
    if status in TRANSIENT:
        return Busy(f"{server} is busy or starting ({status}): {reason}")
    if status in (406, 415) or kind == "media_type_header_exception":
        return InvalidAnswer(
            f"the server at {server.address} is of a version that is not supported: use {server.versions}: {reason}"
        )
    if status == 413:
        return TooLarge(
            f"the server at {server.address}, or a proxy before it, refuses requests of this size: shorten the filters, or "
            "raise http.max_content_length, and the proxy's limit"
        )
    if status >= 500:
        return StoreUnavailable(f"{server} failed ({status}): {reason}")
    if not (isinstance(body, Mapping) and "error" in body):
        return stranger(server)
    if _NO_ANALYSER.search(reason):
        return BadIndex(
            f"the store's `analyser` is not on the server at {server.address}: use `chorale`, one that it has, or a "
            f"definition: {reason}"
        )
    if _NO_KNN.search(reason):
        return BadIndex(f"{server} has no k-NN plugin: install it, or set `vectors = false`: {reason}")
    return BadIndex(f"{server} refuses the request ({status} {kind}): {reason}")


def silent(server: Server) -> StoreTimeout:
    return StoreTimeout(f"{server} did not answer in time")


def unreachable(server: Server, error: object) -> Transient:
    # A server that requires a client certificate reports its absence only by closing the connection (TLS 1.3).
    declared = "url and client_cert_file" if server.address.startswith("https") else "url"
    return Transient(
        f"{server} cannot be reached ({str(error)[:200]}): start it, or check the store's {declared}"
    )


def no_tls(server: Server, error: object) -> StoreUnavailable:
    return StoreUnavailable(
        f"no TLS with {server} ({str(error)[:200]}): check the scheme, ca_file and client_cert_file"
    )


def no_json(server: Server) -> InvalidAnswer:
    return InvalidAnswer(f"{server} answered with something that is not JSON")


def unsent(server: Server, error: Exception) -> StageFailure:
    """The failure without the text of the error, which may quote a header with the key."""
    return StageFailure(f"{server} cannot be asked ({type(error).__name__})")


def stranger(server: Server) -> InvalidAnswer:
    return InvalidAnswer(
        f"what answers at {server.address} is not {server.product} {server.versions}: check the store's url, and its kind "
        "(`elasticsearch` or `opensearch`)"
    )


def _cause(body: Any) -> tuple[str, str]:
    """Type and reason of the innermost cause.  The reason of an error of Amazon is its first line, since the other lines quote the
    request."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(error, Mapping):
        return "", " ".join(str(error).split())[:300]
    cause = error
    while isinstance(inner := cause.get("caused_by"), Mapping):
        cause = inner
    roots = error.get("root_cause")
    if cause is error and isinstance(roots, list) and roots and isinstance(roots[0], Mapping):
        cause = roots[0]
    reason = cause.get("reason") or str(error.get("message") or error.get("Message") or "").partition("\n")[0]
    return str(error.get("type") or cause.get("type", "")), str(reason)[:300]
