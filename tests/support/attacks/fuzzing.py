"""Fuzzed calls of one tenant at what belongs to another."""

from __future__ import annotations

import json
import random
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any
from urllib.parse import quote

import httpx

from tests.support.attacks.estate import MARK, OUR_NAMESPACE, THEIR_FIELD, THEIR_NAMESPACE, Estate
from tests.support.attacks.routes import JSONL, NAMESPACE, ROUTES, seen
from tests.support.servers.http_api import description

THREADS = 8
WILD = 0.2
"""Share of what no valid call has."""
EXPECTED = frozenset({200, 201, 202, 204, 400, 403, 404, 405, 409, 413, 415, 422, 429, 503})
"""503 is a search that the pipeline could not answer, such as one with an unknown namespace."""


@dataclass(frozen=True)
class Shot:
    client: httpx.Client
    method: str
    path: str
    arguments: dict[str, Any]
    twin: str | None
    """The same path with an id that nobody has, if `path` has zenith's: both must give the same response."""


def attack(theirs: Estate, clients: Sequence[httpx.Client], *, calls: int, seed: int) -> Counter[int]:
    """Make at least so many calls; returns how many had each status.

    Raises AssertionError where a response has zenith's mark, or differs from that for an id that nobody has.
    """
    drawn = random.Random(seed)
    shots: list[Shot] = []
    while calls > 0:
        shots.append(_shot(drawn, theirs, drawn.choice(clients)))
        calls -= 1 + (shots[-1].twin is not None)
    with ThreadPoolExecutor(THREADS) as pool:
        return Counter(chain.from_iterable(pool.map(_fire, shots)))


def _fire(shot: Shot) -> list[int]:
    response = shot.client.request(shot.method, shot.path, **shot.arguments)
    message = f"{shot.method} {shot.path} {shot.arguments}: {response.status_code} {response.text[:300]}"
    assert MARK not in response.text + str(response.headers), message
    if shot.twin is None:
        return [response.status_code]
    other = shot.client.request(shot.method, shot.twin, **shot.arguments)
    assert seen(response) == seen(other) or 429 in (response.status_code, other.status_code), message
    return [response.status_code, other.status_code]


def _shot(drawn: random.Random, theirs: Estate, client: httpx.Client) -> Shot:
    method, path = drawn.choice(_ROUTES[drawn.random() < 0.5]).split()
    if drawn.random() < 0.05:
        method = drawn.choice(["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
    ids, nobodys = {}, {}
    is_theirs = drawn.random() < 0.4
    for name, value in theirs.ids.items():
        unknown = value[: -len(_HEX)] + uuid.UUID(int=drawn.getrandbits(128)).hex
        twisted = _namespace(drawn) if name == "namespace" else _twisted(drawn, value)
        ids[name] = quote(value if is_theirs else twisted, safe="")
        nobodys[name] = quote(unknown, safe="")
    arguments: dict[str, Any] = {
        "headers": _headers(drawn),
        "params": _params(drawn, theirs, f"{method} {path}"),
    }
    if method == "POST" and path.endswith("/retry"):
        arguments["json"] = {} if drawn.random() > WILD else {"only": ["failed", 7]}
    elif method in ("POST", "PUT", "PATCH"):
        if path.endswith("/jobs"):
            arguments["content"] = _lines(drawn)
            arguments["headers"] |= JSONL
        elif path.endswith("/documents"):
            arguments["json"] = {"documents": [{"id": drawn.choice(["own", "x" * 999, ""]), "text": "bread"}]}
        else:
            arguments["json"] = _body(drawn, theirs)
    twin = path.format(**nobodys) if is_theirs and "{" in path else None
    return Shot(client, method, path.format(**ids), arguments, twin)


_HEX = "0" * 32
_ROUTES = (
    [route for route in ROUTES if "{" in route and route != "DELETE /v1/namespaces/{namespace}"],
    [route for route in ROUTES if "{" not in route],
)
"""With and without ids.  Acme may delete its own namespace, and would then find nothing there."""


def _namespace(drawn: random.Random) -> Any:
    return _one_of(drawn, [NAMESPACE, OUR_NAMESPACE], [THEIR_NAMESPACE, "default", "*", "", "Ä", "x" * 64])


def _twisted(drawn: random.Random, value: str) -> str:
    """An id that looks like zenith's, or reaches for it."""
    tenant_of_mine = value.replace("t.zenith.", "t.acme.")
    return drawn.choice(
        [
            value.upper(),
            value[:-1],
            f"{value}x",
            f"{value}:waiting",
            f"{value}\0",
            f" {value}",
            value.replace(".", "%2e"),
            tenant_of_mine,
            f"t.acme.{value}",
            f"t.acme./../{value}",
            f"t.acme.*{value[-4:]}",
            "t.acme.%",
            "t.acme._",
            "t.acme.",
            "t.zenith.",
            "*",
            "%",
            "t.acme.x' OR '1'='1",
            value.replace("e", "е"),  # a Cyrillic letter
            uuid.uuid4().hex,
            "x" * 2_000,
        ]
    )


def _headers(drawn: random.Random) -> dict[str, str]:
    pool = {
        "Prefer": drawn.choice(["respond-async", "wait=0", "wait=x", "handling=lenient"]),
        "Idempotency-Key": _one_of(drawn, ["same", '"same"', str(drawn.randrange(50))], ["\x7f", "x" * 300]),
        "X-Tenant": "zenith",
        "X-Forwarded-User": "zenith",
        "X-HTTP-Method-Override": "DELETE",
        "Last-Event-ID": drawn.choice(["0", "1-1", "zenith"]),
    }
    return {name: pool[name] for name in drawn.sample(list(pool), drawn.randrange(3))}


@cache
def _parameters() -> Mapping[str, Sequence[str]]:
    """The query parameters of each route."""
    paths = description()["paths"]
    return {
        f"{method.upper()} {path}": [
            one["name"] for one in route.get("parameters", ()) if one["in"] == "query"
        ]
        for path, methods in paths.items()
        for method, route in methods.items()
    }


def _one_of(drawn: random.Random, usual: Sequence[Any], wild: Sequence[Any]) -> Any:
    return drawn.choice(wild if drawn.random() < WILD else usual)


def _params(drawn: random.Random, theirs: Estate, route: str) -> dict[str, str]:
    ids = list(theirs.ids.values())
    pool = {
        "namespace": _namespace(drawn),
        "other": drawn.choice([*ids, "t.acme.x"]),
        "after": _one_of(drawn, ["0", "1"], ["-1", "x", *ids]),
        "limit": _one_of(drawn, ["1", "200"], ["1000", "0", "9" * 30]),
        "wait": _one_of(drawn, ["0", "0.01"], ["-1", "nan"]),
        "partial": _one_of(drawn, ["true", "false"], ["x"]),
        "id": drawn.choice(["own", "ours", "zenith"]),
        "format": _one_of(drawn, ["json", "csv", "trec"], ["xml"]),
        "name": drawn.choice(["zenith", ""]),
        "only": "failed",
        "ended_before": _one_of(drawn, ["2999-01-01T00:00:00Z", "2020-01-01T00:00:00Z"], ["2020-01-01", "x"]),
        "on_end": json.dumps({"task": "a.b", "queue": "c"}),
        "options": json.dumps(_options(drawn)),
        "correlation_id": drawn.choice(["zenith", "%"]),
        "status": drawn.choice(["complete", "%"]),
        "tenant": "zenith",
        "request_id": drawn.choice(ids),
        "prefix": "t.zenith.",
    }
    needed = {"ended_before", "id", "other"}
    names = [
        name
        for name in _parameters().get(route, ())
        if name in pool and drawn.random() < (0.9 if name in needed else 0.3)
    ]
    if drawn.random() < WILD / 2:
        names.append(drawn.choice(list(pool)))
    return {name: pool[name] for name in names}


def _options(drawn: random.Random) -> dict[str, Any]:
    conditions = [
        "zenith",
        ["acme", "zenith"],
        {"not": "acme"},
        {"exists": True},
        {"all": ["zenith"]},
        {"gt": 0},
    ]
    fields = ["customer", THEIR_FIELD, "source", "nowhere", "", "a.b"]
    usual: dict[str, Any] = {
        "filters": {drawn.choice(fields): drawn.choice(conditions) for _ in range(drawn.randrange(1, 3))},
        "top_k": drawn.choice([1, 5, 1_000]),
        "offset": drawn.choice([0, 3]),
        "depth": drawn.choice([1, 100, 1_000]),
        "include": drawn.choice([["texts"], ["explanation"], ["ids"]]),
        "cache": drawn.choice(["use", "refresh", "bypass"]),
        "exclude_ids": ["ours"],
        "weights": {"bm25": 1},
        "tags": {"t": "zenith"},
    }
    wild: dict[str, Any] = {
        "namespace": drawn.choice([THEIR_NAMESPACE, "Ä", 7]),
        "filters": {"customer": drawn.choice([None, {}, {"all": []}, [["x"]]])},
        "top_k": drawn.choice([0, "x"]),
        "include": ["all"],
        "weights": {"nothing": 1},
        "on_end": {"task": "a.b", "queue": "c"},
        "linked": [{"task": "a.b", "queue": "c"}],
    }
    pool = wild if drawn.random() < WILD else usual
    return {name: pool[name] for name in drawn.sample(list(pool), drawn.randrange(4))}


def _body(drawn: random.Random, theirs: Estate) -> Any:
    # Most do not search, so that ten thousand take less than a minute.
    body: dict[str, Any] = {
        "questions": ["bread"],
        "namespace": drawn.choice([NAMESPACE, OUR_NAMESPACE]),
        "needs_retrieval": drawn.random() < 0.4,
        **_options(drawn),
    }
    if drawn.random() < WILD / 4:
        body["request_id"] = drawn.choice(list(theirs.ids.values()))
    if drawn.random() < WILD / 4:
        return drawn.choice([None, [], "x", 7, {"questions": [[]]}, {"only": ["failed"]}, {"v": 2, **body}])
    return body


def _lines(drawn: random.Random) -> bytes:
    line = {"text": "bread", **_options(drawn)}
    return drawn.choice([b"", b"{", json.dumps(line).encode(), b'{"text": "bread"}\n{"text": "bread"}'])
