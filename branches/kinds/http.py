"""The `http` kind: ask a declared JSON endpoint the question, without variants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.extensions import BranchKind

if TYPE_CHECKING:
    from branches.part import Part
    from models.hits import Ranking


def search_http(part: Part) -> list[Ranking]:
    return part.search_text([{text: 1.0} for text in part.texts], part.branch.depth)


KIND = BranchKind(search_http, asks_http=True)
