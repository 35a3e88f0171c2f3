"""One Redis address in the two spellings there are: redis-py's and Celery's."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit


def socket_url(socket: Path) -> str:
    """The address of a server on a unix socket, for redis-py."""
    return f"unix://{quote(str(socket))}?db=0"


def celery_url(redis_url: str) -> str:
    """The address that Celery takes (`broker_url`, `result_backend`) for one that redis-py takes.

    `unix://[user:password@]/path?db=1` becomes `redis+socket://[user:password@]/path?virtual_host=1`, a
    password among the parameters moves before the path; all others are the same to both.
    """
    if not redis_url.startswith("unix://"):
        return redis_url
    parts = urlsplit(redis_url)
    options = dict(parse_qsl(parts.query))
    login = parts.netloc
    if "password" in options:
        user = quote(options.pop("username", ""), safe="")
        login = f"{user}:{quote(options.pop('password'), safe='')}@"
    options["virtual_host"] = options.pop("db", "0")
    return f"redis+socket://{login}{parts.path}?{urlencode(options)}"


def without_password(url: str) -> str:
    """The address as it may be shown."""
    parts = urlsplit(url)
    if not parts.password and "password=" not in parts.query:
        return url
    host = parts.netloc.rpartition("@")[2]
    query = f"?{parts.query}" if parts.query and "password=" not in parts.query else ""
    return f"{parts.scheme}://***@{host}{parts.path}{query}"
