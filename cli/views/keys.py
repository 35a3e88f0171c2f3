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
    table = plain_table("key", "", "namespaces", "scopes", "last used (UTC)", "name (tenant)")
    for column in table.columns[:-1]:
        column.no_wrap = True
    for key in found:
        state = key.state(now_ms)
        tenant = "" if key.tenant == key.key_id else f"({key.tenant})"
        table.add_row(
            key.key_id,
            Text(state, _STYLES[state]),
            # A line for each: the words of a narrow column would break.
            "*" if key.namespaces is None else "\n".join(key.namespaces),
            "\n".join(key.scopes),
            "never" if key.used_at_ms is None else moment(key.used_at_ms),
            Text(" ".join(filter(None, (key.name, tenant))), overflow="fold"),
        )
    return table
