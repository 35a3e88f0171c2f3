"""Files of judgements: golden questions, TREC qrels, and UBI events as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chorale_client.errors import describe_faults, safe_repr
from pydantic import ValidationError

from ingest.document_ids import checked_id
from models.errors import WrongDeclaration
from records.judgements.feedback import LLM, Event, Feedback, Source
from records.judgements.pooling import JudgedQuestion

LONGEST_LINE = 100_000
"""Bytes."""


class WrongJudgements(WrongDeclaration):
    """The file holds no judgements; the message names file, line and field."""


def golden_entry(question: JudgedQuestion) -> dict[str, Any] | None:
    """The line of a golden file.

    None for a question that no such line can say: its text is not kept, or the judged documents do not fit and others may.
    """
    expected = {id_: grade for id_, grade in question.grades.items() if grade > 0}
    if not question.text or not (expected or question.nothing_fits):
        return None
    return {"question": question.text, "expected": expected or [], "namespace": question.namespace}


def qrels_lines(question: JudgedQuestion) -> Iterator[str]:
    """Topic (the hash of the text), 0, document and grade, between tabs, since an id may have spaces."""
    for document_id, grade in question.grades.items():
        yield f"{question.text_hash}\t0\t{document_id}\t{grade}"


def ubi_event(feedback: Feedback) -> dict[str, Any]:
    """The event as User Behavior Insights has it; its own attributes are what UBI has no names for."""
    attributes = {
        "object": {"object_id": feedback.object_id},
        "position": {"ordinal": feedback.ordinal},
        "question": feedback.question,
        "grade": feedback.grade,
        "source": feedback.source,
        "namespace": feedback.namespace,
        "configuration": feedback.configuration,
    }
    return {
        "application": "chorale",
        "action_name": feedback.action_name,
        "query_id": feedback.request_id,
        "client_id": feedback.key_id,
        "user_query": feedback.text,
        "timestamp": datetime.fromtimestamp(feedback.at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        "event_attributes": attributes,
    }


@dataclass(frozen=True, slots=True)
class JudgementLine:
    line: int
    """Where it stands in its file, from 1."""
    event: Event
    """Its `request_id` is that of a request, or the hash of a question's text."""
    at_ms: int | None = None
    judge: str | None = None
    source: Source = "judge"


def read_judgements(file: Path) -> Iterator[JudgementLine]:
    """The lines of a file of JSON lines (`.jsonl`), or of TREC qrels.  Raises WrongJudgements with the first fault, and OSError."""
    read = _from_json if file.suffix.lower() == ".jsonl" else _from_qrels
    with file.open("rb") as stream:
        for line, raw in enumerate(iter(lambda: stream.readline(LONGEST_LINE + 1), b""), start=1):
            try:
                if len(raw) > LONGEST_LINE:
                    raise ValueError(f"longer than {LONGEST_LINE:,} bytes")
                if text := raw.decode("utf-8-sig").strip("\r\n"):
                    yield read(line, text)
            except ValidationError as error:
                faults = describe_faults(error.errors(), place="event")
                raise WrongJudgements(f"{file}, line {line}, {faults}") from None
            except (ValueError, RecursionError, OverflowError) as error:
                raise WrongJudgements(f"{file}, line {line}: {error}") from None


def _from_json(line: int, text: str) -> JudgementLine:
    """An event of UBI, or of the HTTP API; `timestamp` and `client_id` say when it was judged, and by whom."""
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise ValueError("not an object with `query_id` or `request_id`")
    timestamp, judge = fields.pop("timestamp", None), fields.pop("client_id", None)
    attributes = fields.get("event_attributes")
    is_by_llm = isinstance(attributes, dict) and attributes.get("source") == LLM
    moment = None if timestamp is None else datetime.fromisoformat(str(timestamp))
    if moment is not None and moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    at_ms = None if moment is None else round(moment.timestamp() * 1000)
    source: Source = LLM if is_by_llm else "judge"
    return JudgementLine(line, Event.model_validate(fields), at_ms, judge and str(judge), source)


def _from_qrels(line: int, text: str) -> JudgementLine:
    parts = text.split("\t") if "\t" in text else text.split()
    if len(parts) != 4 or not parts[3].strip().isdecimal():
        raise ValueError(f"not `topic 0 document grade`, with a grade from 0 to 3: {safe_repr(text)}")
    topic, _, document_id, grade = parts
    event = Event(
        request_id=topic.strip(), action="grade", document_id=checked_id(document_id), grade=int(grade)
    )
    return JudgementLine(line, event)
