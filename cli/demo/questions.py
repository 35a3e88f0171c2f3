"""The demo's questions about `cli.demo.python_docs`; each shows one reason for asking several branches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

LOW_COSINE = 0.25
"""With this model, a lower cosine means that the passage is about something else; good answers reach .34."""
UNSEEN_RANK = 10
"""A lower-ranked document is not on the first screen and counts as not found."""


class Shows(StrEnum):
    """What a question shows."""

    ONLY_BM25 = "only BM25 finds it"
    ONLY_VECTORS = "only vectors find it"
    FUSION = "fusion beats both"
    FILTER = "a filter"
    NOTHING = "nothing answers it"


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    shows: Shows
    text: str
    why: str
    """Shown before the answer."""
    expected: str | None
    """The document that should come first; None if no document has the answer."""
    filters: Mapping[str, str] = field(default_factory=dict)


QUESTIONS = (
    DemoQuestion(
        Shows.ONLY_BM25,
        "nlargest",
        "An exact identifier: one document has the word, and an embedding has never seen it.",
        "python/heapq.nlargest",
    ),
    DemoQuestion(
        Shows.ONLY_VECTORS,
        "scratch folder that vanishes afterwards",
        "A paraphrase: the right document says temporary directory and removed, and shares no word with it.",
        "python/tempfile.TemporaryDirectory",
    ),
    DemoQuestion(
        Shows.FUSION,
        "delete directory tree",
        "Words and meaning each put another document first; the one on which they agree is right.",
        "python/shutil.rmtree",
    ),
    DemoQuestion(
        Shows.FILTER,
        "wait until it is finished",
        "The same words mean threads elsewhere; a filter keeps to one module, in every branch alike.",
        "python/subprocess.Popen.wait",
        {"parent": "subprocess"},
    ),
    DemoQuestion(
        Shows.NOTHING,
        "symptoms of influenza",
        "No search engine should pretend: no word matches, and the nearest passages are far away.",
        None,
    ),
)


def broken_claim(
    question: DemoQuestion,
    *,
    first: str | None,
    ranks: Mapping[str, int],
    has_lexical_hits: bool,
    best_cosine: float,
) -> str | None:
    """A sentence if the question does not show what it claims, else None.

    `first` is the best fused document, `ranks` the expected one's rank in `bm25` and `vector` where they
    found it, `best_cosine` the vector branch's best score.
    """
    if question.expected is None:
        if has_lexical_hits or best_cosine >= LOW_COSINE:
            return f"something answers: lexical hits {has_lexical_hits}, best cosine {best_cosine:.2f}"
        return None
    if first != question.expected:
        return f"the first hit is {first}, not {question.expected}"
    bm25, vector = (ranks.get(branch, UNSEEN_RANK + 1) for branch in ("bm25", "vector"))
    holds = {
        Shows.ONLY_BM25: bm25 == 1 and vector > UNSEEN_RANK,
        Shows.ONLY_VECTORS: vector == 1 and bm25 > UNSEEN_RANK,
        Shows.FUSION: min(bm25, vector) > 1,
        Shows.FILTER: True,
    }[question.shows]
    return None if holds else f"{question.expected} has rank {bm25} in BM25 and {vector} among the vectors"
