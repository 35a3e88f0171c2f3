"""`chorale keys` as a person calls it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from records.keys.key_store import KeyStore
from tests.integration.cli.commands.printed import document
from tests.support.command_line import Run


def test_a_key_is_shown_once_listed_by_its_prefix_and_revoked(alone: Run, tmp_path: Path) -> None:
    rights = ("--namespace", "docs", "--scope", "search:run", "--max-top-k", "50", "--expires", "90d")
    created = alone("keys", "create", *rights, "--name", "website", "--filter", "customer=acme")
    assert created.returncode == 0, created.stderr
    text = created.stdout.strip()
    _, key_id, secret = text.split("_", 2)
    prefix = f"chorale_{key_id}_…"
    assert f"`chorale keys revoke {key_id}` ends it" in created.stderr

    with closing(KeyStore(f"sqlite:///{tmp_path}/home/audit.db")) as store:
        grant = store.find(text)
    assert grant is not None
    assert (grant.namespaces, grant.max_top_k, grant.filters) == (
        frozenset({"docs"}),
        50,
        {"customer": "acme"},
    )

    listed = alone("keys", "list").stdout
    assert all(word in listed for word in (key_id, "active", "website"))
    (row,) = document(alone("keys", "list", "--json"))["keys"]
    assert (row["prefix"], row["state"], row["scopes"]) == (prefix, "active", ["search:run"])
    assert row["expires_at_ms"] - row["created_at_ms"] in range(90 * 86_400_000 - 60_000, 90 * 86_400_001)
    assert row["used_at_ms"] is not None
    assert secret not in listed + json.dumps(row)

    assert alone("keys", "revoke", prefix).returncode == 0
    assert "revoked" in alone("keys", "list").stdout
    assert document(alone("keys", "create", *rights, "--json"))["key"] != text


def test_an_unknown_key_is_named_and_an_empty_list_says_so(alone: Run) -> None:
    assert "there are no keys yet" in alone("keys", "list").stdout
    assert alone("keys", "revoke", "nothing").stderr.startswith("chorale: no key 'nothing'")


def test_the_secret_of_a_key_s_webhooks_is_printed_at_its_creation_and_on_demand(alone: Run) -> None:
    create = ("keys", "create", "-n", "docs", "--scope", "jobs:write", "--json")
    secret = {"CHORALE_WEBHOOK_SECRET": "a-secret-of-24-characters"}
    first, second = (document(alone(*create, **secret)) for _ in range(2))
    assert first["webhook_secret"].startswith("whsec_")
    assert first["webhook_secret"] != second["webhook_secret"]
    printed = alone("keys", "webhook-secret", first["key_id"], **secret)
    assert printed.stdout.strip() == first["webhook_secret"]
    assert "set CHORALE_WEBHOOK_SECRET" in alone("keys", "webhook-secret", first["key_id"]).stderr
    assert "no key 'nobody'" in alone("keys", "webhook-secret", "nobody", **secret).stderr
