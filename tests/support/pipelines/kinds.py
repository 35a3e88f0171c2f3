"""Kinds of branches that a test adds to those of the product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from config.pipeline import BRANCH_KINDS
from tasks.request.search import KINDS


def declare(**kinds: Callable[..., Any]) -> None:
    """Make them known to this process: to the pipeline's reader and to the search tasks."""
    cast("dict[str, Any]", BRANCH_KINDS).update({kind: {} for kind in kinds})
    cast("dict[str, Any]", KINDS).update(kinds)
