"""Namespaces on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cli.terminal import Text, plain_table

if TYPE_CHECKING:
    from rich.table import Table


def namespaces_table(namespaces: Iterable[Mapping[str, Any]], *, has_redis: bool = True) -> Table:
    """The rows are those of `cli.namespace_states.namespace_fields`; `has_redis`: whether a Redis answers."""
    shown = plain_table("namespace", ">documents", ">passages", ">generation", "")
    for one in namespaces:
        in_redis = one["published_generation"]
        is_same = not has_redis or in_redis == one["generation"]
        differs = "" if is_same else f"Redis has {'none' if in_redis is None else in_redis}"
        counts = (f"{one[name]:,}" for name in ("documents", "passages", "generation"))
        shown.add_row(Text(one["name"], "bold"), *counts, Text(differs, "yellow"))
    return shown
