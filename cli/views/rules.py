"""Changes of rules on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cli.terminal import Text, plain_table
from cli.views.audit import moment
from models.rules import Rules
from rules.editing import difference

if TYPE_CHECKING:
    from rich.table import Table

    from rules.store import Version

_SIGNS = {"added": ("+", "green"), "changed": ("~", "yellow"), "removed": ("-", "red")}


def change_fields(versions: Sequence[Version], count: int) -> list[dict[str, Any]]:
    """The first `count` changes as `chorale rules history --json` prints them; `versions` are newest first."""
    older = [*versions[1:], None][: len(versions)]
    return [
        {
            "version": one.version,
            "changed_at_ms": one.changed_at_ms,
            "changed_by": one.changed_by,
            **difference(before.rules if before else Rules(), one.rules),
            "rules": one.rules.model_dump(mode="json", exclude_defaults=True),
        }
        for one, before in list(zip(versions, older, strict=True))[:count]
    ]


def changes_table(changes: Sequence[Mapping[str, Any]]) -> Table:
    table = plain_table(">version", "changed (UTC)", "by", "what")
    for one in changes:
        what = [Text(f"{sign}{name}", style) for kind, (sign, style) in _SIGNS.items() for name in one[kind]]
        table.add_row(
            str(one["version"]), moment(one["changed_at_ms"]), one["changed_by"], Text(" ").join(what)
        )
    return table
