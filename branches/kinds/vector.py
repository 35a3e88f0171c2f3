"""The `vector` kind: search the embeddings of the questions and of their semantic variants."""

from __future__ import annotations

from branches.expansion import ExpansionOptions, expanded_texts
from branches.part import Part
from fusion.question_variants import DENSE
from models.extensions import BranchKind
from models.hits import Ranking


def search_vector(part: Part) -> list[Ranking]:
    texts = expanded_texts(part, DENSE)
    return part.search_vectors(part.embed(texts), map(len, texts))


KIND = BranchKind(
    search_vector,
    options=ExpansionOptions,
    needs=frozenset({"questions", "vectors"}),
    variants=DENSE,
    options_in_plan=False,
    asks_http=False,
    merges=True,
)
