"""Checks and compares the addresses of servers in settings.

The checks raise a ValueError that says what to do.  It does not quote the address, which may contain a password.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode, urlsplit

from chorale_client.connections.urls import address_of, wrong_scheme

_REDIS = ("redis", "rediss", "unix", "redis+socket")
_AMQP = ("amqp", "amqps", "pyamqp")
_BROKERS = (*_REDIS, *_AMQP)
_DATABASES = ("sqlite", "postgresql")
_DATABASE = re.compile(r"[\w+]+://([^:/]*(:[^@]*)?@)?(\[[^/?]+\]|[^/:?@]+)?(:\d{1,5})?([/?][^@]*)?")
"""An address as SQLAlchemy parses it; importing SQLAlchemy takes a second.  An @ behind the host is one of a password that is not
encoded, and the rest of that password would be shown."""
_DATABASE_LOGIN = re.compile(r"^[^:/]*(:[^@]*)?@")
_IDENTIFYING = ("host", "port", "dbname", "options", "virtual_host")
"""Query parameters that identify the server or database (PostgreSQL's `options` may select a schema)."""
_UNREADABLE = (
    "the address cannot be read: in a user or password write / as %2F, # as %23, ? as %3F, @ as %40, : as %3A and "
    "% as %25; a port, and the database of a Redis, is a number"
)


def check_redis(url: str) -> str:
    """The address in redis-py's spelling.  Like the other checks, for `field_validator`."""
    return address_of(_check_server(url, _REDIS))


def check_broker(url: str) -> str:
    """The address.  An address of Redis is returned in redis-py's spelling, so that one server has one address."""
    _check_server(url, _BROKERS)
    return url if url.startswith(_AMQP) else address_of(url)


def check_database(url: str) -> str:
    _check_scheme(url, _DATABASES)
    if url.startswith("sqlite"):
        if url.partition("://")[2][:1] not in ("", "/"):
            raise ValueError("sqlite: must be followed by three or four slashes")
    elif not _DATABASE.fullmatch(url):
        raise ValueError(_UNREADABLE)
    return url


def check_postgresql(url: str) -> str:
    _check_scheme(url, ("postgresql",))
    return check_database(url)


def server_of(url: str) -> str:
    """The server, database or virtual host of an address, to show and compare: without login, driver and TLS."""
    scheme, _, rest = url.partition("://")
    if scheme.startswith("sqlite"):
        return f"sqlite://{rest.partition('?')[0]}"
    if scheme.startswith("postgresql"):
        url = f"postgresql://{_DATABASE_LOGIN.sub('', rest)}"
    parts = urlsplit(url)
    query = urlencode([(name, value) for name, value in parse_qsl(parts.query) if name in _IDENTIFYING])
    host = parts.netloc.rpartition("@")[2].lower()
    return f"{parts.scheme}://{host}{parts.path}{f'?{query}' if query else ''}"


def _check_scheme(url: str, schemes: tuple[str, ...]) -> None:
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme not in schemes and scheme.partition("+")[0] not in schemes:
        raise ValueError(f"an address {wrong_scheme(scheme, schemes)}")


def _check_server(url: str, schemes: tuple[str, ...]) -> str:
    """Check an address as redis-py and kombu parse it."""
    _check_scheme(url, schemes)
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError(_UNREADABLE) from None
    behind = url.partition("://")[2].removeprefix(parts.netloc)
    # A password that begins with digits, as in redis://me:12/34@here, looks like a port.
    is_cut = (
        bool(parts.netloc) and "@" in behind and "@" not in parts.netloc and "password=" not in parts.query
    )
    is_redis = parts.scheme in ("redis", "rediss")
    if is_cut or (is_redis and not re.fullmatch(r"(/\d*)?", parts.path)):
        raise ValueError(_UNREADABLE)
    return url
