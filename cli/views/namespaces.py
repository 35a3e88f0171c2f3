"""Namespaces on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from cli.terminal import plain_table

if TYPE_CHECKING:
    from rich.table import Table

    from models.documents import NamespaceState


def namespaces_table(states: Iterable[NamespaceState], published: Mapping[str, int] | None) -> Table:
    """`published`: the generations in Redis; None if no Redis answers."""
    shown = plain_table("namespace", ">documents", ">passages", ">generation", "")
    for state in states:
        in_redis = state.generation if published is None else published.get(state.name)
        has = "none" if in_redis is None else in_redis
        differs = "" if in_redis == state.generation else f"Redis has {has}"
        counts = (f"{count:,}" for count in (state.documents, state.passages, state.generation))
        shown.add_row(Text(state.name, "bold"), *counts, Text(differs, "yellow"))
    return shown
