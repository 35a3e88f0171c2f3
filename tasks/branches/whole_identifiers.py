"""Which hits of BM25 have the question's identifiers whole, read from their texts: the same in every store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from models.documents import PassageText
from models.errors import StageFailure
from models.hits import Ranking
from models.texts.identifiers import wholes, wholes_of_question
from models.texts.readable_text import readable
from tasks.branches.branch_task import BranchTask

FIRST_HITS = 20
"""Only these hits of a ranking are read: they have the rarest words of the question."""
MOST_DOCUMENTS = 5
"""An identifier that more documents have distinguishes less than the other words of the question."""


def with_whole_identifiers(task: BranchTask, rankings: Sequence[Ranking]) -> list[Ranking]:
    """The rankings, which name the passages that have all identifiers of the question, if they are BM25's first ones and few.

    A store that fails to give texts leaves the rankings as they are.
    """
    identifiers = [wholes_of_question(readable(text)[0]) for text in task.texts]
    hits = [
        ranking.hits[:FIRST_HITS] if wanted else ()
        for wanted, ranking in zip(identifiers, rankings, strict=True)
    ]
    ids = [hit.passage_id for question_hits in hits for hit in question_hits]
    texts: Mapping[str, PassageText] = {}
    if ids:
        with suppress(StageFailure):
            texts = task.store.texts(task.request.namespace, ids, timeout_s=min(0.5, task.remaining_s))
    marked = []
    for wanted, ranking, first in zip(identifiers, rankings, hits, strict=True):
        having = [
            hit
            for hit in first
            if hit.passage_id in texts and wanted <= wholes(_whole_text(texts[hit.passage_id]))
        ]
        documents = {hit.document_id for hit in having}
        # Where BM25 itself has others first, the question is about more than its identifier.
        are_first = having == list(first[: len(having)])
        decides = 0 < len(documents) <= MOST_DOCUMENTS and are_first
        marked.append(replace(ranking, whole=tuple(hit.passage_id for hit in having)) if decides else ranking)
    return marked


def _whole_text(passage: PassageText) -> str:
    return readable("\n".join((passage.title, passage.heading, passage.text)))[0]
