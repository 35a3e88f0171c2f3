"""`chorale keys` as a person calls it."""

from __future__ import annotations

import json
from pathlib import Path

from access.key_store import KeyStore
from tests.support.command_line import Run


def test_a_key_is_shown_once_listed_by_its_prefix_and_revoked(alone: Run, tmp_path: Path) -> None:
    given = ("--namespace", "docs", "--scope", "search:run", "--max-top-k", "50", "--expires", "90d")
    created = alone("keys", "create", *given, "--name", "website", "--filter", "customer=acme")
    assert created.returncode == 0, created.stderr
    text = created.stdout.strip()
    key_id = text.split("_")[1]
    assert f"`chorale keys revoke {key_id}` ends it" in created.stderr

    store = KeyStore(f"sqlite:///{tmp_path}/home/audit.db")
    grant = store.find(text)
    store.close()
    assert grant is not None
    assert (grant.namespaces, grant.max_top_k, grant.filters) == (
        frozenset({"docs"}),
        50,
        {"customer": "acme"},
    )

    listed = alone("keys", "list")
    assert f"chorale_{key_id}_…" in listed.stdout
    assert "active" in listed.stdout
    assert "website" in listed.stdout
    (shown,) = json.loads(alone("keys", "list", "--json").stdout)["keys"]
    assert (shown["prefix"], shown["state"], shown["scopes"]) == (
        f"chorale_{key_id}_…",
        "active",
        ["search:run"],
    )
    assert shown["expires_at_ms"] - shown["created_at_ms"] in range(90 * 86_400_000 - 5_000, 90 * 86_400_001)
    assert shown["used_at_ms"] is not None
    secret = text.split("_", 2)[2]
    assert secret not in listed.stdout + json.dumps(shown)

    assert alone("keys", "revoke", f"chorale_{key_id}_…").returncode == 0
    assert "revoked" in alone("keys", "list").stdout


def test_two_keys_of_one_tenant_and_every_namespace(alone: Run) -> None:
    given = ("-n", "*", "--scope", "search:run", "--scope", "search:read", "--tenant", "acme", "--json")
    first, second = (json.loads(alone("keys", "create", *given).stdout) for _ in range(2))
    assert first["key"] != second["key"]
    rows = json.loads(alone("keys", "list", "--json").stdout)["keys"]
    assert {(row["tenant"], row["namespaces"]) for row in rows} == {("acme", None)}


def test_an_unknown_key_is_named_and_an_empty_list_says_so(alone: Run) -> None:
    assert "there are no keys yet" in alone("keys", "list").stdout
    assert alone("keys", "revoke", "nothing").stderr.startswith("chorale: no key 'nothing'")
