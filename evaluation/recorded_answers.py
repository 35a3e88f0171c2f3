"""Answers to judged questions in a file: JSON lines as `chorale jobs results` writes them, or a TREC run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chorale_client.answer import QuestionAnswer
from chorale_client.wire_names import Status
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from evaluation.collection import Collection, text_lines
from evaluation.comparison import Answered
from models.errors import WrongDeclaration


class WrongAnswers(WrongDeclaration):
    """The file holds no answers; the message names the line."""


def read_answers(file: Path, collection: Collection) -> Answered:
    """The answers by question id; raises WrongAnswers, also if no question of the collection is among them."""
    found = Answered(str(file))
    ranked: dict[str, list[dict[str, Any]]] = {}
    for number, text in text_lines(file):
        try:
            if text.lstrip().startswith("{"):
                line = from_json(text)
                answer = (line.get("questions") or [line])[0]
                read = QuestionAnswer.model_validate(answer)
                # A line may have been refused because another has its id.
                if read.status != Status.REFUSED:
                    found.answers[str(line["id"])] = read
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
        found.answers[question_id] = QuestionAnswer.model_validate({"status": Status.COMPLETE, "hits": hits})
    if not found.answers.keys() & collection.questions.keys():
        raise WrongAnswers(f"{file}: no answers to questions of {collection.name}")
    return found


def write_answers(found: Answered, file: Path) -> None:
    """Write JSON lines that `read_answers` reads."""
    with file.open("wb") as lines:
        for question_id, answer in found.answers.items():
            said = answer.model_dump(mode="json", exclude_defaults=True)
            lines.write(to_json({"id": question_id, **said}) + b"\n")
