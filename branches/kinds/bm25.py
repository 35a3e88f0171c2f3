"""The `bm25` kind: search the words of the questions and of their lexical variants."""

from __future__ import annotations

from branches.expansion import ExpansionOptions, expanded_texts
from branches.part import Part
from fusion.question_variants import LEXICAL
from models.extensions import BranchKind
from models.hits import Ranking


def search_bm25(part: Part) -> list[Ranking]:
    return part.search_text(expanded_texts(part, LEXICAL), part.branch.depth)


KIND = BranchKind(
    search_bm25,
    options=ExpansionOptions,
    needs=frozenset({"text"}),
    variants=LEXICAL,
    options_in_plan=False,
    asks_http=False,
    floor=0.0,
    merges=True,
)
