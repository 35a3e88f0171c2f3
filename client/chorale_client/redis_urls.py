"""One Redis address in the two spellings there are: redis-py's and Celery's."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode, urlsplit


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
