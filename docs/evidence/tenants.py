"""The attacks on keys and tenants: `python -m docs.evidence.tenants [CALLS]` makes them and prints the result for each route.

A pipeline with the HTTP API runs for it.  The tests repeat the same attacks (`tests/integration/api/test_tenants.py`).
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import ExitStack
from statistics import median

import httpx

from records.keys.grant import SCOPES
from records.keys.key_store import KeyStore
from tests.support.attacks.estate import MARK, OUR_NAMESPACE, Estate, estate, index_documents
from tests.support.attacks.fuzzing import attack
from tests.support.attacks.routes import NAMESPACE, ROUTES, WITH_IDS, call, seen
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.http_api import HttpApi
from tests.support.servers.redis_server import RedisServer

CALLS, REVOCATIONS, UNKNOWN = 10_000, 20, ("t.acme.0", "t.zenith.0", "unknown", "t.acme.*")


def main(calls: int) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(RedisServer())
        pipeline = stack.enter_context(RunningPipeline(server, sweeper=True))
        index_documents(pipeline)
        api = stack.enter_context(HttpApi(pipeline.resources.settings))
        zenith = stack.enter_context(estate(api))

        def client(namespace: str, *without: str, **rights: object) -> httpx.Client:
            scopes = frozenset(SCOPES) - {*without}
            found = api.client("acme", namespaces=frozenset({namespace}), scopes=scopes, **rights)
            return stack.enter_context(found)

        acme = client(NAMESPACE)
        filtered = client(NAMESPACE, "admin", "documents:write", filters={"customer": "acme"})
        before = zenith.state()
        rows = [_row(route, api, zenith, acme) for route in ROUTES]
        counts = attack(zenith, [filtered, client(OUR_NAMESPACE)], calls=calls, seed=calls)
        assert zenith.state() == before
        text = _computed(rows, counts, [_revoked_after_s(api) for _ in range(min(calls, REVOCATIONS))])
    sys.stdout.write(text)


def _row(route: str, api: HttpApi, zenith: Estate, acme: httpx.Client) -> str:
    """A row of the table; raises AssertionError if zenith's ids can be told from unknown ones."""
    with httpx.Client(base_url=api.origin) as stranger:
        nobody = call(stranger, route, zenith.ids).status_code
    ids = []
    for _, name in (one for one in WITH_IDS if one[0] == route):
        responses = [
            call(acme, route, {**zenith.ids, "namespace": NAMESPACE, name: one})
            for one in (zenith.ids[name], *UNKNOWN)
        ]
        assert len({seen(one) for one in responses}) == 1, (route, name)
        assert MARK not in responses[0].text
        ids.append(f"`{name}`: {responses[0].status_code}")
    scopes = ", ".join(sorted(ROUTES[route].scopes)) or "the operator's key"
    return f"| `{route}` | {scopes} | {nobody} | {', '.join(ids) or '–'} |"


def _revoked_after_s(api: HttpApi) -> float:
    """How long a key in constant use goes on after its revocation."""
    with api.client("gone") as client:
        store = KeyStore(api.settings.audit_database_url)
        client.get("/v1/jobs").raise_for_status()
        store.revoke(client.headers["authorization"].split("_")[1])
        store.close()
        revoked_s = time.monotonic()
        while client.get("/v1/jobs").status_code == 200:
            time.sleep(0.005)
        return time.monotonic() - revoked_s


def _computed(rows: list[str], counts: Counter[int], revoked_s: list[float]) -> str:
    statuses = ", ".join(f"{count:,} × {status}" for status, count in sorted(counts.items()))
    return "\n".join(
        [
            "| route | scopes that reach it | without a key | zenith's id, and unknown ids |",
            "|---|---|---|---|",
            *rows,
            "",
            f"{sum(counts.values()):,} fuzzed calls: {statuses}.  No response showed zenith's mark or told "
            "zenith's ids from unknown ones, and zenith's search, job, documents and ticket were as before.",
            "",
            f"A key in constant use was refused {median(revoked_s):.2f} s after its revocation (median of {len(revoked_s)}), "
            f"at the latest after {max(revoked_s):.2f} s.",
            "",
        ]
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else CALLS)
