"""Why Redis does not do what it is asked, told apart, and what to do about it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from chorale_client.redis_urls import without_password
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    RedisError,
    ResponseError,
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """`what` is wrong and what to do, together one sentence."""

    what: str
    mend: str

    def __str__(self) -> str:
        return f"{self.what}: {self.mend}"


def trouble(error: RedisError, url: str | None = None) -> Trouble:
    """`url` is its address, where that is known."""
    server = f"the Redis at {without_password(url)}" if url else "Redis"
    is_tls = (url or "").startswith("rediss://")
    cause, said = _cause(error), str(error).removesuffix(".")
    if isinstance(error, AuthenticationError):
        return Trouble(
            f"{server} refuses the login ({said})", "correct user and password in CHORALE_REDIS_URL"
        )
    if isinstance(error, NoPermissionError) or "user executing the script can't" in said:
        return Trouble(
            f"{server} does not let this login do it ({said.partition(' script: ')[0]})",
            "put a login that may into CHORALE_REDIS_URL, such as the operator's",
        )
    if isinstance(error, ResponseError):
        return Trouble(f"{server} refuses what it is asked ({said})", "see its log, and CHORALE_REDIS_URL")
    if isinstance(error, BusyLoadingError):
        return Trouble(f"{server} is still reading its data", "wait, or see its log")
    if isinstance(cause, ssl.SSLCertVerificationError):
        return Trouble(
            f"the certificate of {server} is not trusted ({cause.verify_message.rstrip('. ')})",
            "name the authority that signed it in CHORALE_REDIS_URL (?ssl_ca_certs=…) or SSL_CERT_FILE, and the host "
            "as the certificate does",
        )
    if isinstance(cause, ssl.SSLError) or (is_tls and isinstance(cause, FileNotFoundError)):
        return Trouble(
            f"TLS with {server} does not come about ({_reason(cause) or said})",
            "see whether the files that CHORALE_REDIS_URL and SSL_CERT_FILE name are there and hold certificates",
        )
    if isinstance(cause, ConnectionResetError) or "closed by server" in said:
        return Trouble(
            f"{server} hangs up",
            "where it wants TLS, CHORALE_REDIS_URL begins with rediss://; else see its log",
        )
    if is_tls and "handshake" in str(cause):
        return Trouble(
            f"{server} does not answer in TLS ({cause})",
            "see whether it is busy; where it has no TLS, CHORALE_REDIS_URL begins with redis://",
        )
    return Trouble(
        f"{server} does not answer ({_reason(cause) or said})", "start it, or correct CHORALE_REDIS_URL"
    )


def _cause(error: BaseException) -> BaseException:
    """What went wrong underneath, where redis-py says only that the connection did not come about."""
    while (underneath := error.__cause__ or error.__context__) is not None:
        error = underneath
    return error


def _reason(cause: BaseException) -> str:
    """Without the host, which stands in the address."""
    return (cause.strerror or str(cause)) if isinstance(cause, OSError) else ""
