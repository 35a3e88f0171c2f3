"""Translating the client's errors, and errors inside an answer, to a store's failures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from elastic_transport import ConnectionError as NoConnection
from elastic_transport import ConnectionTimeout, SerializationError, TlsError, TransportError
from elasticsearch import ApiError, UnsupportedProductError
from urllib3.exceptions import EmptyPoolError

from models.errors import (
    BadIndex,
    InvalidAnswer,
    ServiceError,
    StageFailure,
    StoreTimeout,
    StoreUnavailable,
    Unauthorised,
)

PASSING = frozenset({429, 502, 503, 504})
"""Statuses of a server that is busy or starting."""

_NO_ANALYSER = re.compile(
    r"analyzer \[.*\] has not been configured|failed to find .*(analyzer|tokenizer|filter)"
)


class MissingIndex(BadIndex):
    """The index does not exist (any more)."""


class Passing(StoreUnavailable):
    """May be over in a moment: worth a retry."""


@contextmanager
def translated(address: str) -> Iterator[None]:
    """Translates the client's errors to StageFailure."""
    try:
        yield
    except UnsupportedProductError as error:
        raise _stranger(address) from error
    except ApiError as error:
        # Elasticsearch names itself in every answer.  The client checks the name only if the status is 200.
        if error.status_code in (400, 404) and error.meta.headers.get("x-elastic-product") != "Elasticsearch":
            raise _stranger(address) from error
        raise failure(address, error.status_code, error.body) from error
    except ConnectionTimeout as error:
        raise StoreTimeout(f"Elasticsearch at {address} did not answer in time") from error
    except TlsError as error:
        raise StoreUnavailable(
            f"no TLS with Elasticsearch at {address} ({str(error)[:200]}): check the scheme, ca_file and client_cert_file"
        ) from error
    except NoConnection as error:
        if any(isinstance(one, EmptyPoolError) for one in error.errors):
            raise all_busy(address) from error
        # A server that requires a client certificate reports its absence only by closing the connection (TLS 1.3).
        declared = "url and client_cert_file" if address.startswith("https") else "url"
        raise Passing(
            f"Elasticsearch at {address} cannot be reached ({str(error)[:200]}): start it, or check the store's {declared}"
        ) from error
    except SerializationError as error:
        raise InvalidAnswer(f"Elasticsearch at {address} answered with something that is not JSON") from error
    except TransportError as error:
        raise StoreUnavailable(f"Elasticsearch at {address}: {str(error)[:200]}") from error
    except ServiceError:
        raise
    except Exception as error:
        # The text of this error and of its causes may quote a header, and so the key.
        raise StageFailure(f"Elasticsearch at {address} cannot be asked ({type(error).__name__})") from None


@contextmanager
def readable(address: str) -> Iterator[None]:
    """While an answer is read, an unexpected structure becomes InvalidAnswer."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InvalidAnswer(
            f"Elasticsearch at {address} answered in an unknown format ({type(error).__name__}: "
            f"{str(error)[:100]}): is its version 8 or 9?"
        ) from error


def failure(address: str, status: int, body: Any) -> StageFailure:
    """The failure for an error that the server reported, with what to do."""
    kind, reason = _told(body)
    if kind == "cluster_block_exception" and status == 403:
        return StoreUnavailable(f"Elasticsearch at {address} allows no writes now: {reason}")
    if status in (401, 403):
        return Unauthorised(
            f"Elasticsearch at {address} refuses our credentials ({status}): check api_key_env or password_env, and "
            f"the rights on the indices: {reason}"
        )
    if kind == "index_not_found_exception":
        return MissingIndex(f"Elasticsearch at {address} has no such index: {reason}")
    if "maximum normal shards open" in reason or "maximum shards open" in reason:
        return BadIndex(
            f"the cluster at {address} takes no more shards, so no more namespaces: add a node, drop namespaces, or "
            f"raise cluster.max_shards_per_node: {reason}"
        )
    if status in PASSING:
        return Passing(f"Elasticsearch at {address} is busy or starting ({status}): {reason}")
    if status in (406, 415) or kind == "media_type_header_exception":
        return InvalidAnswer(
            f"the server at {address} is of a version that is not supported: use 8 or 9: {reason}"
        )
    if status == 413:
        return BadIndex(
            f"the server at {address}, or a proxy before it, refuses requests of this size: shorten the filters, or "
            "raise http.max_content_length, and the proxy's limit"
        )
    if status >= 500:
        return StoreUnavailable(f"Elasticsearch at {address} failed ({status}): {reason}")
    if not (isinstance(body, Mapping) and "error" in body):
        return _stranger(address)
    if _NO_ANALYSER.search(reason):
        return BadIndex(
            f"the store's `analyser` is not on the server at {address}: use `chorale`, one that it has, or a "
            f"definition: {reason}"
        )
    return BadIndex(f"Elasticsearch at {address} refuses the request ({status} {kind}): {reason}")


def all_busy(address: str) -> StoreTimeout:
    return StoreTimeout(
        f"no connection to Elasticsearch at {address} came free in time: raise the store's `connections`"
    )


def _stranger(address: str) -> InvalidAnswer:
    return InvalidAnswer(
        f"what answers at {address} is not Elasticsearch 8 or 9 (OpenSearch is not supported): check the store's url"
    )


def _told(body: Any) -> tuple[str, str]:
    """Type and reason of the innermost cause."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(error, Mapping):
        return "", " ".join(str(error).split())[:300]
    cause = error
    while isinstance(inner := cause.get("caused_by"), Mapping):
        cause = inner
    roots = error.get("root_cause")
    if cause is error and isinstance(roots, list) and roots and isinstance(roots[0], Mapping):
        cause = roots[0]
    return str(error.get("type") or cause.get("type", "")), str(cause.get("reason", ""))[:300]
