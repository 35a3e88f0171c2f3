"""A client of Redis for short questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redis import Redis
import re
import ssl
from dataclasses import dataclass

from chorale_client.connections.cluster import NO_CLUSTER, is_of_cluster
from chorale_client.connections.failover import follow_primary
from chorale_client.connections.urls import without_password
from chorale_client.keys import SWEEPER, WAKEUPS
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)

from models.errors import UnsupportedRedis

_TRANSIENT = (ReadOnlyError, OutOfMemoryError, ClusterDownError, TryAgainError)
_TRANSIENT_CODES = re.compile(
    r"(?:^| -|: )(READONLY|MISCONF|LOADING|OOM|BUSY|NOREPLICAS|MASTERDOWN|UNBLOCKED|CLUSTERDOWN|TRYAGAIN)\b"
)
"""Codes of replies that say that the server cannot serve now.  Words stand before the code of a command in a pipeline, and
often before that of a command in a script."""


def open_redis(url: str, *, limit_s: float = 2.0) -> Redis:
    """A client whose calls fail after `limit_s`."""
    from redis import Redis

    client = Redis.from_url(url, socket_timeout=limit_s, socket_connect_timeout=limit_s)
    follow_primary(client.connection_pool)
    return client


def redis_ms(redis: Redis) -> int:
    """Milliseconds since 1970 by the Redis server's clock."""
    seconds, micros = redis.time()
    return seconds * 1_000 + micros // 1_000


def is_transient(error: BaseException) -> bool:
    """Whether the same command may succeed later without anybody's change: Redis is away, or it answers that it cannot serve
    now, as a replica after a failover, after a failed save, or while it is full or busy."""
    if isinstance(error, ResponseError):
        return isinstance(error, _TRANSIENT) or bool(_TRANSIENT_CODES.search(str(error)))
    return isinstance(error, ConnectionError | TimeoutError | OSError)


def refuse_cluster(client: Redis, url: str) -> None:
    """Raises UnsupportedRedis if the server is a Redis Cluster.  Says nothing of a server that does not answer."""
    try:
        # Two slots, of which a cluster serves no command at once.
        client.mget(WAKEUPS, SWEEPER)
    except RedisError as error:
        if is_of_cluster(error):
            why = explained(error, url)
            raise UnsupportedRedis(why.what, why.mend) from None


@dataclass(frozen=True, slots=True)
class Explanation:
    """`what` is wrong, and how to `mend` it; together one sentence."""

    what: str
    mend: str

    def __str__(self) -> str:
        return f"{self.what}: {self.mend}"


def explained(error: RedisError, url: str | None = None) -> Explanation:
    """The explanation of an error; `url` is the address of Redis, if known."""
    server = f"the Redis at {without_password(url)}" if url else "Redis"
    is_tls = (url or "").startswith("rediss://")
    cause, message = _cause(error), str(error).removesuffix(".")
    if is_of_cluster(error):
        return Explanation(
            f"{NO_CLUSTER}, and {server} is one ({message})",
            "use one Redis server, or one address that follows the primary (docs/operate.md)",
        )
    if isinstance(error, AuthenticationError):
        return Explanation(
            f"{server} refuses the login ({message})", "correct user and password in CHORALE_REDIS_URL"
        )
    if isinstance(error, NoPermissionError) or "user executing the script can't" in message:
        return Explanation(
            f"{server} does not allow this login to do that ({message.partition(' script: ')[0]})",
            "put a login with that permission into CHORALE_REDIS_URL, such as the operator's",
        )
    if isinstance(error, ResponseError) and is_transient(error):
        return Explanation(f"{server} cannot serve now ({message})", "wait, or see its log")
    if isinstance(error, ResponseError):
        return Explanation(f"{server} refuses the command ({message})", "see its log, and CHORALE_REDIS_URL")
    if isinstance(error, BusyLoadingError):
        return Explanation(f"{server} is still reading its data", "wait, or see its log")
    if isinstance(cause, ssl.SSLCertVerificationError):
        return Explanation(
            f"the certificate of {server} is not trusted ({cause.verify_message.rstrip('. ')})",
            "name the authority that signed it in CHORALE_REDIS_URL (?ssl_ca_certs=…) or SSL_CERT_FILE, and use the host "
            "name of the certificate",
        )
    if isinstance(cause, ssl.SSLError) or (is_tls and isinstance(cause, FileNotFoundError)):
        return Explanation(
            f"TLS with {server} fails ({_reason(cause) or message})",
            "check that the files in CHORALE_REDIS_URL and SSL_CERT_FILE exist and contain certificates",
        )
    if isinstance(cause, ConnectionResetError) or "closed by server" in message:
        return Explanation(
            f"{server} closes the connection",
            "if it needs TLS, CHORALE_REDIS_URL must begin with rediss://; else see its log",
        )
    if is_tls and "handshake" in str(cause):
        return Explanation(
            f"{server} does not answer in TLS ({cause})",
            "check whether it is busy; if it has no TLS, CHORALE_REDIS_URL must begin with redis://",
        )
    return Explanation(
        f"{server} does not answer ({_reason(cause) or message})",
        "start it, correct CHORALE_REDIS_URL, or unset it where `chorale up` is to start one",
    )


def _cause(error: BaseException) -> BaseException:
    """The underlying error; redis-py itself reports only that connecting failed."""
    while (underneath := error.__cause__ or error.__context__) is not None:
        error = underneath
    return error


def _reason(cause: BaseException) -> str:
    """The reason without the host, which is already in the address."""
    return (cause.strerror or str(cause)) if isinstance(cause, OSError) else ""
