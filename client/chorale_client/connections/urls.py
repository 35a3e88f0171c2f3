"""One address of Redis, or of a broker, in the two spellings there are: ours, which is redis-py's, and Celery's."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from redis.connection import ConnectionPool, parse_url
from redis.exceptions import RedisError

_OF_BROKERS = {"ssl_ca_certs": "ca_certs", "ssl_certfile": "certfile", "ssl_keyfile": "keyfile"}
"""TLS options of RabbitMQ addresses: redis-py's name to py-amqp's name."""

OPTIONS = (
    "db", "username", "password", "ssl_cert_reqs", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname"
)  # fmt: skip
"""The options after the `?` of an address of Redis that people use; redis-py knows more."""

SCHEMES = ("redis", "rediss", "unix", "redis+socket")

VARIABLE = "CHORALE_REDIS_URL"
BROKER_VARIABLE = "CHORALE_BROKER_URL"
CELLS_VARIABLE = "CHORALE_CELLS"
LOCAL = "redis://localhost:6379/0"


VERIFICATIONS = ("none", "optional", "required")
"""How strictly `ssl_cert_reqs` has the server's certificate verified; Celery also writes `CERT_NONE` and so on."""


def wrong_scheme(scheme: str, allowed: Sequence[str]) -> str:
    """What is wrong with an address that begins with `scheme`."""
    follows = "; in place of Sentinel's, give one address that follows the primary"
    return (
        f"begins with one of: {', '.join(f'{name}://' for name in allowed)}{follows * (scheme == 'sentinel')}"
    )


def address_of(url: str | None = None) -> str:
    """The address for redis-py: the given one, in either spelling, else that of `CHORALE_REDIS_URL`, else `LOCAL`.

    Raises ValueError that names the wrong option, without its value, which may be a password.
    """
    url = url or os.environ.get(VARIABLE) or LOCAL
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise ValueError(f"the address of Redis {wrong_scheme(parts.scheme, SCHEMES)}")
    options = dict(parse_qsl(parts.query))
    if "virtual_host" in options or parts.scheme == "redis+socket":
        options["db"] = options.pop("virtual_host", "0")
    if "ssl_cert_reqs" in options:
        options["ssl_cert_reqs"] = options["ssl_cert_reqs"].removeprefix("CERT_").lower()
        if options["ssl_cert_reqs"] not in VERIFICATIONS:
            allowed = ", ".join((*VERIFICATIONS, *(f"CERT_{name.upper()}" for name in VERIFICATIONS)))
            raise ValueError(f"the address of Redis: ssl_cert_reqs is one of: {allowed}")
    if options != dict(parse_qsl(parts.query)):
        parts = parts._replace(query=urlencode(options, safe="/"))
    if parts.scheme == "redis+socket":
        # `urlunsplit` leaves out the slashes of an empty host.
        url = f"unix://{parts.netloc}{parts.path}?{parts.query}"
    else:
        url = url.partition("?")[0] + f"?{parts.query}" * bool(parts.query)
    _check_options(url)
    return url


def _check_options(url: str) -> None:
    """Raises ValueError for an address or an option that redis-py refuses, which it does only when it connects."""
    try:
        ConnectionPool.from_url(url).make_connection()
    except TypeError as error:
        unknown = re.findall(r"argument '(\w+)'", str(error))
        raise ValueError(
            f"the address of Redis: {', '.join(unknown) or 'an option'} is not an option; there are: {', '.join(OPTIONS)}"
        ) from None
    except (ValueError, RedisError) as error:
        message = (
            "the port is no number; in a user or password write / as %2F" if "Port" in str(error) else error
        )
        raise ValueError(f"the address of Redis: {message}") from None


CELL = re.compile(r"[a-z0-9]{1,16}")
"""The name of a cell."""


def cell_addresses(text: str | None, broker_url: str | None = None) -> dict[str, str]:
    """The address of Redis of each cell in `a=redis://…,b=redis://…`; empty without cells.

    Raises ValueError, which does not quote the addresses, also if there is a `broker_url`: a cell's broker is its Redis.
    """
    addresses: dict[str, str] = {}
    for part in filter(None, (text or "").split(",")):
        name, _, url = part.strip().partition("=")
        if not CELL.fullmatch(name) or not url or name in addresses:
            raise ValueError(
                "cells look like a=redis://…,b=redis://…, each with another name of 1-16 lower-case letters and digits; in a "
                "password write , as %2C"
            )
        addresses[name] = address_of(url)
    if addresses and broker_url:
        raise ValueError(f"the broker of a cell is its Redis: unset {BROKER_VARIABLE}")
    return addresses


def server_of(url: str) -> tuple[str | None, int, str]:
    """The server and the database of an address, whatever its login and options are."""
    parts = urlsplit(url)
    return parts.hostname, parts.port or 6379, parts.path.strip("/") or "0"


def is_same_server(broker_url: str, redis_url: str) -> bool:
    """Whether both addresses have the same server, database, login and options, in whatever form they are written."""
    if urlsplit(broker_url).scheme not in SCHEMES:
        return False
    first, second = ({"port": 6379, "db": 0, **parse_url(address_of(url))} for url in (broker_url, redis_url))
    return first == second


def celery_url(url: str) -> str:
    """The address that Celery takes (`broker_url`, `result_backend`) for ours; `broker_tls` goes with it.

    `unix://[user:password@]/path?db=1` becomes `redis+socket://[user:password@]/path?virtual_host=1`, a
    password among the parameters moves before the path.  For `rediss://` Celery requires an explicit statement whether
    the certificate is verified; without one kombu does not verify it.
    """
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    if parts.scheme == "rediss" and "ssl_cert_reqs" not in options:
        query = f"{parts.query}&ssl_cert_reqs=required".removeprefix("&")
        return urlunsplit(parts._replace(query=query))
    if parts.scheme == "amqps" and parts.query:
        query_options = {name: value for name, value in options.items() if not name.startswith("ssl_")}
        return urlunsplit(parts._replace(query=urlencode(query_options)))
    if parts.scheme != "unix":
        return url
    login = parts.netloc
    if "password" in options:
        user = quote(options.pop("username", ""), safe="")
        login = f"{user}:{quote(options.pop('password'), safe='')}@"
    options["virtual_host"] = options.pop("db", "0")
    return f"redis+socket://{login}{parts.path}?{urlencode(options)}"


def broker_tls(url: str) -> dict[str, Any] | bool:
    """The TLS options for kombu (`broker_use_ssl`, `Connection(ssl=…)`).

    Without them kombu would not verify the host name of RabbitMQ's certificate, and Flower reads no TLS options from
    addresses.
    """
    parts = urlsplit(url)
    if parts.scheme == "rediss":
        options = dict(parse_qsl(urlsplit(celery_url(address_of(url))).query))
        tls: dict[str, Any] = {name: value for name, value in options.items() if name.startswith("ssl_")}
        tls["ssl_cert_reqs"] = ssl.VerifyMode[f"CERT_{tls['ssl_cert_reqs'].upper()}"]
        if "ssl_check_hostname" in tls:
            tls["ssl_check_hostname"] = tls["ssl_check_hostname"].lower() != "false"
        return tls
    if parts.scheme != "amqps":
        return False
    files = {_OF_BROKERS[name]: file for name, file in parse_qsl(parts.query) if name in _OF_BROKERS}
    return {"server_hostname": parts.hostname, "cert_reqs": ssl.CERT_REQUIRED, **files}


def without_password(url: str) -> str:
    """The address without its password, for display."""
    parts = urlsplit(url)
    if not parts.password and "password=" not in parts.query:
        return url
    host = parts.netloc.rpartition("@")[2]
    query = f"?{parts.query}" if parts.query and "password=" not in parts.query else ""
    return f"{parts.scheme}://***@{host}{parts.path}{query}"
