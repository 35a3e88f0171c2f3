"""Compares two rankings of the same judged questions: wins, losses and ties, a paired test, and what moved most.

The answers of a side can come from a file: JSON lines as `chorale jobs results` writes them, or a TREC run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chorale_client.answer import Answer, QuestionAnswer
from chorale_client.request import Request
from chorale_client.wire_names import Status
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from config.declarations import Pipeline
from evaluation.judged.collection import Collection, text_lines
from evaluation.judged.metrics import Gain, measure_each, paired_gain
from evaluation.judged.movements import Movement, movements
from evaluation.judged.run import Run, answers_of, ranked_documents
from models.errors import WrongDeclaration

N_FIRST = 3
"""For a question, so many first documents of each ranking are listed beside the relevant ones."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The answers of one side to the judged questions."""

    name: str
    answers: dict[str, QuestionAnswer] = field(default_factory=dict)
    """Key: question id."""


@dataclass(frozen=True, slots=True)
class Mover:
    """A question on which the two sides differ."""

    question_id: str
    text: str
    values: tuple[float, float]
    """Of A and of B."""
    grades: Mapping[str, int]
    moved: Sequence[Movement]
    """The relevant documents that one of the two found, then the first ones of both."""

    def to_wire(self) -> dict[str, Any]:
        return {
            "question_id": self.question_id,
            "text": self.text,
            "a": round(self.values[0], 4),
            "b": round(self.values[1], 4),
            "documents": [
                {**movement.to_wire(), "grade": self.grades.get(movement.document_id)}
                for movement in self.moved
            ],
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    collection: str
    measure: str
    names: tuple[str, str]
    gain: Gain
    """Of B over A."""
    means: Mapping[str, tuple[float, float]]
    """Means of A and of B, by measure."""
    movers: Sequence[Mover]
    """The largest difference first."""
    faults: tuple[int, int]
    """Questions of A and of B whose answer is degraded, failed or missing."""

    @property
    def ties(self) -> int:
        return self.gain.questions - self.gain.wins - self.gain.losses

    def to_wire(self) -> dict[str, Any]:
        return {
            "collection": self.collection,
            "measure": self.measure,
            "a": self.names[0],
            "b": self.names[1],
            "gain": {
                **self.gain.to_wire(),
                "ties": self.ties,
                "is_distinguishable": self.gain.is_distinguishable,
            },
            "means": {name: [round(mean, 4) for mean in pair] for name, pair in self.means.items()},
            "faults": list(self.faults),
            "movers": [mover.to_wire() for mover in self.movers],
        }


def answered(
    collection: Collection,
    pipeline: Pipeline,
    configuration: str,
    *,
    ask: Callable[[Request], Answer],
    progress: Callable[[str, int], None] = lambda name, questions: None,
) -> Answered:
    """Ask all questions of the collection under a configuration, with explanations and without boosts and cache."""
    chosen = pipeline.configurations[configuration]
    branches = tuple(branch.name for branch in pipeline.branches_of(chosen))
    run = Run(configuration, configuration, branches, is_reranked=chosen.reranker is not None)
    answers = answers_of(run, collection, ask, progress, include=("ids", "explanation"))
    return Answered(configuration, {id_: question for id_, question, _ in answers})


def count_faults(collection: Collection, answers: Mapping[str, QuestionAnswer]) -> int:
    """Number of questions of the collection whose answer is degraded, failed or missing."""
    whole = (Status.COMPLETE, Status.SKIPPED)
    return sum(id_ not in answers or answers[id_].status not in whole for id_ in collection.questions)


def compare(
    collection: Collection, a: Answered, b: Answered, *, measure: str = "ndcg@10", movers: int = 5
) -> Comparison:
    """Compare the two by `measure`, a key of `evaluation.judged.metrics.MEASURES`; `movers` questions are explained.

    A question that a side did not answer counts as 0 there.  Raises ServiceError without `ir-measures`.
    """
    rankings = [
        {
            id_: ranked_documents(answer)
            for id_, answer in side.answers.items()
            if id_ in collection.judgements
        }
        for side in (a, b)
    ]
    values = [measure_each(collection.judgements, ranking, own=collection.own) for ranking in rankings]
    ids = list(collection.questions)
    values_a, values_b = ([each[measure][id_] for id_ in ids] for each in values)
    means = {name: tuple(sum(each[name].values()) / len(ids) for each in values) for name in values[0]}
    differing = [at for at in range(len(ids)) if values_a[at] != values_b[at]]
    differing.sort(key=lambda at: (-abs(values_b[at] - values_a[at]), at))
    return Comparison(
        collection.name,
        measure,
        (a.name, b.name),
        paired_gain(values_b, values_a),
        means,  # type: ignore[arg-type]  # a pair for each measure
        [_mover(collection, ids[at], (values_a[at], values_b[at]), a, b) for at in differing[:movers]],
        (count_faults(collection, a.answers), count_faults(collection, b.answers)),
    )


def _mover(
    collection: Collection, question_id: str, values: tuple[float, float], a: Answered, b: Answered
) -> Mover:
    grades = collection.judgements[question_id]
    none = QuestionAnswer(status=Status.FAILED)
    hits = [side.answers.get(question_id, none).hits for side in (a, b)]
    hit_ids = {hit.document_id for side in hits for hit in side}
    moved_ids = [id_ for id_, grade in grades.items() if grade > 0 and id_ in hit_ids]
    moved_ids += [hit.document_id for side in reversed(hits) for hit in side[:N_FIRST]]
    return Mover(
        question_id, collection.questions[question_id], values, grades, movements(hits[0], hits[1], moved_ids)
    )


class WrongAnswers(WrongDeclaration):
    """The file holds no answers; the message names the line."""


def read_answers(file: Path, collection: Collection) -> Answered:
    """The answers by question id; raises WrongAnswers, also if no question of the collection is among them."""
    side = Answered(str(file))
    ranked: dict[str, list[dict[str, Any]]] = {}
    for number, text in text_lines(file):
        try:
            if text.lstrip().startswith("{"):
                line = from_json(text)
                answer = (line.get("questions") or [line])[0]
                read = QuestionAnswer.model_validate(answer)
                # A line may have been refused because another has its id.
                if read.status != Status.REFUSED:
                    side.answers[str(line["id"])] = read
            else:
                question_id, _, document_id, rank, score, _ = text.split()
                hit = {"rank": int(rank), "document_id": document_id, "passage_id": "", "score": float(score)}
                ranked.setdefault(question_id, []).append(hit)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"{error.error_count()} wrong fields" if isinstance(error, ValidationError) else str(error)
            raise WrongAnswers(
                f"{file}, line {number}: neither a line of `chorale jobs results` nor of a TREC run: {what}"
            ) from None
    for question_id, hits in ranked.items():
        hits.sort(key=lambda hit: hit["rank"])
        side.answers[question_id] = QuestionAnswer.model_validate({"status": Status.COMPLETE, "hits": hits})
    if not side.answers.keys() & collection.questions.keys():
        raise WrongAnswers(f"{file}: no answers to questions of {collection.name}")
    return side


def write_answers(side: Answered, file: Path) -> None:
    """Write JSON lines that `read_answers` reads."""
    with file.open("wb") as lines:
        for question_id, answer in side.answers.items():
            fields = answer.model_dump(mode="json", exclude_defaults=True)
            lines.write(to_json({"id": question_id, **fields}) + b"\n")
