"""API keys on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from access.key import shown_prefix
from cli.terminal import Text, plain_table
from cli.views.audit import moment

if TYPE_CHECKING:
    from rich.table import Table

    from access.key_store import Key

_STYLES = {"active": "green", "expired": "yellow", "revoked": "red"}


def key_fields(key: Key, now_ms: int) -> dict[str, Any]:
    """A key as `chorale keys list --json` prints it."""
    return {"prefix": shown_prefix(key.key_id), "state": key.state(now_ms), **asdict(key)}


def keys_table(found: Sequence[Key], now_ms: int) -> Table:
    """A row for each key."""
    table = plain_table("key", "", "tenant", "namespaces", "scopes", "last used (UTC)", "name")
    table.columns[0].no_wrap = table.columns[5].no_wrap = True
    for key in found:
        state = key.state(now_ms)
        table.add_row(
            shown_prefix(key.key_id),
            Text(state, _STYLES[state]),
            "" if key.tenant == key.key_id else key.tenant,
            "*" if key.namespaces is None else ", ".join(key.namespaces),
            ", ".join(key.scopes),
            "never" if key.used_at_ms is None else moment(key.used_at_ms),
            key.name,
        )
    return table
