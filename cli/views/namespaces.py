"""Namespaces on a terminal and in JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.text import Text

from cli.terminal import plain_table

if TYPE_CHECKING:
    from rich.table import Table

    from models.documents import NamespaceState


def namespace_fields(state: NamespaceState, published: int | None) -> dict[str, Any]:
    """`published` is the generation in Redis; None where Redis has none."""
    return {
        "name": state.name,
        "documents": state.documents,
        "passages": state.passages,
        "generation": state.generation,
        "published_generation": published,
        "manifest": asdict(state.manifest) if state.manifest else None,
    }


def namespaces_table(states: Iterable[NamespaceState], published: Mapping[str, int] | None) -> Table:
    """`published` are the generations in Redis; None where no Redis answers."""
    counts = ("documents", "passages", "generation")
    shown = plain_table("namespace", *counts, "", right=counts)
    for state in states:
        in_redis = state.generation if published is None else published.get(state.name)
        has = "none" if in_redis is None else in_redis
        differs = "" if in_redis == state.generation else f"Redis has {has}"
        shown.add_row(
            Text(state.name, "bold"),
            *(f"{getattr(state, name):,}" for name in counts),
            Text(differs, "yellow"),
        )
    return shown
