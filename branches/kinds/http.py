"""The `http` kind: ask a declared JSON endpoint the question, without variants."""

from __future__ import annotations

from branches.part import Part
from models.extensions import BranchKind
from models.hits import Ranking


def search_http(part: Part) -> list[Ranking]:
    return part.search_text([{text: 1.0} for text in part.texts], part.branch.depth)


KIND = BranchKind(search_http, asks_http=True)
