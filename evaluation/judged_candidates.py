"""Judged questions with the passages that the branches found for them: what a reranker learns from."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from chorale_client.answer import Answer
from chorale_client.request import Request
from pydantic_core import from_json, to_json

from evaluation.collection import Collection
from evaluation.run import plain_request
from ingest.document_ids import checked_id
from models.batching import in_batches
from models.documents import PassageText
from models.errors import ServiceError
from tasks.request.reranking import passage_text

QUESTIONS_A_REQUEST = 4
"""Few, since an answer holds the texts of all candidates."""


class Candidate(NamedTuple):
    document_id: str
    score: float
    """The fused score."""
    text: str
    """The best passage as a reranker reads it, with its title."""


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    question_id: str
    text: str
    candidates: Sequence[Candidate]
    """In fused order."""
    grades: Mapping[str, int]
    """Grades by document id."""
    missed: Sequence[str] = ()
    """Texts of relevant documents that no branch found: to learn from, and never among the candidates."""

    @property
    def relevant(self) -> list[str]:
        """Texts of the relevant documents."""
        found = [one.text for one in self.candidates if self.grades.get(one.document_id, 0) > 0]
        return [*found, *self.missed]

    @property
    def negatives(self) -> list[str]:
        """Texts of the candidates that nobody judged relevant; the higher a branch had them, the harder they are."""
        return [one.text for one in self.candidates if self.grades.get(one.document_id, 0) <= 0]


def mined(
    collection: Collection,
    *,
    depth: int,
    ask: Callable[[Request], Answer],
    configuration: str | None = None,
    progress: Callable[[int], None] = lambda questions: None,
) -> list[JudgedQuestion]:
    """Ask every question, without a reranker; calls `progress(n)` after n questions.

    Raises ServiceError for an answer that lacks a branch, and the exceptions of `ask`.
    """
    found: dict[str, list[Candidate]] = {}
    for ids in in_batches(collection.questions, QUESTIONS_A_REQUEST):
        texts = [collection.questions[id_] for id_ in ids]
        options = {"configuration": configuration, "include": ["texts", "metadata"], "rerank": "off"}
        answer = ask(plain_request(texts, collection.namespace, depth=depth, **options))
        if answer.degraded:
            said = ", ".join(f"{one.where} {one.reason}" for one in answer.degraded)
            raise ServiceError(f"the candidates of {len(ids)} questions are not whole: {said}")
        for question_id, question in zip(ids, answer.questions, strict=True):
            found[question_id] = [
                Candidate(hit.document_id, hit.score, _pair_text(hit.document_id, hit.title, hit.text))
                for hit in question.hits
                if hit.text and hit.document_id != question_id
            ]
        progress(len(ids))
    return _judged(collection, found)


def _judged(collection: Collection, found: Mapping[str, Sequence[Candidate]]) -> list[JudgedQuestion]:
    missed = {
        question_id: sorted(
            {id_ for id_, grade in collection.judgements[question_id].items() if grade > 0}
            - {one.document_id for one in candidates}
        )
        for question_id, candidates in found.items()
    }
    texts = _texts_of(collection.corpus, {id_ for ids in missed.values() for id_ in ids})
    return [
        JudgedQuestion(
            question_id,
            collection.questions[question_id],
            candidates,
            collection.judgements[question_id],
            [_pair_text(id_, *texts[id_]) for id_ in missed[question_id] if id_ in texts],
        )
        for question_id, candidates in found.items()
    ]


def _texts_of(corpus: Path, ids: Container[str]) -> dict[str, tuple[str, str]]:
    """Title and text of these documents."""
    texts = {}
    with corpus.open("rb") as lines:
        for line in lines:
            if line.strip() and (id_ := checked_id(str((row := from_json(line))["_id"]))) in ids:
                texts[id_] = (str(row.get("title") or ""), str(row.get("text") or ""))
    return texts


def _pair_text(document_id: str, title: str | None, text: str | None) -> str:
    return passage_text(PassageText("", document_id, title or "", "", text or "", {}))


def keep(questions: Sequence[JudgedQuestion], path: Path, *, of: Mapping[str, object]) -> None:
    """Write the questions; `of` says what they were made of, and `kept` compares it."""
    # A passage is a candidate of many questions.
    places: dict[str, int] = {}
    rows = [
        asdict(one)
        | {
            "candidates": [
                (id_, score, places.setdefault(text, len(places))) for id_, score, text in one.candidates
            ]
        }
        for one in questions
    ]
    whole = path.with_suffix(".part")
    whole.write_bytes(to_json({"of": of, "texts": list(places), "questions": rows}))
    whole.replace(path)


def kept(path: Path, *, of: Mapping[str, object]) -> list[JudgedQuestion] | None:
    """The questions that `keep` wrote; None if there are none that were made of the same."""
    if not path.is_file() or (whole := from_json(path.read_bytes()))["of"] != dict(of):
        return None
    texts = whole["texts"]
    return [
        JudgedQuestion(
            **row | {"candidates": [Candidate(id_, score, texts[at]) for id_, score, at in row["candidates"]]}
        )
        for row in whole["questions"]
    ]
