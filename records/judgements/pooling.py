"""Grades of documents, from all feedback on questions with one text.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median_low

from records.judgements.feedback import LLM, NOTHING_FITS, Feedback


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    namespace: str
    text_hash: str
    text: str | None
    """None if texts are not kept."""
    grades: Mapping[str, int]
    """By document; one without a judgement is not there."""
    nothing_fits: bool
    """There is such a judgement, and no document has a grade above 0."""


def pooled(feedback: Iterable[Feedback], *, by_llm: bool = False) -> list[JudgedQuestion]:
    """The judged questions in order of their first judgement; `feedback` is in order of time.

    The judgements are those of people, or with `by_llm` those of language models, and never of both.

    Of each key's grades and thumbs on a document the latest counts, and of several keys the median, of two the lower.  Clicks
    are no judgements.
    """
    latest: dict[tuple[str, str], dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    texts: dict[tuple[str, str], str | None] = {}
    without: set[tuple[str, str]] = set()
    for item in feedback:
        if (item.source == LLM) != by_llm:
            continue
        question = item.namespace, item.text_hash
        texts[question] = item.text or texts.get(question)
        if item.action_name == NOTHING_FITS:
            without.add(question)
            latest[question]  # the question is judged
        elif item.judgement is not None and item.object_id is not None:
            latest[question][item.object_id][item.key_id] = item.judgement
    judged = []
    for question, documents in latest.items():
        grades = {name: median_low(by_key.values()) for name, by_key in documents.items()}
        nothing_fits = question in without and not any(grades.values())
        judged.append(JudgedQuestion(*question, texts[question], grades, nothing_fits))
    return judged
