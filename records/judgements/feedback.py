"""Feedback on a hit: the event that a caller sends, also as a UBI event (User Behavior Insights), and the row that is kept.  Pure."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from chorale_client.limits import MAX_ID_CHARS, MAX_QUESTIONS
from chorale_client.tenants import tenant_of
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import to_json

from models.tables.audit import RequestRow

Source = Literal["user", "judge", "llm"]
LLM: Source = "llm"
"""A language model, whose grades are kept apart from those of people."""
NOTHING_FITS = "nothing_fits"
THUMBS: Mapping[str, int] = {"thumb_up": 2, "thumb_down": 0}
"""The grade of each thumb."""
HIGHEST_GRADE = 3


class Event(BaseModel):
    """What a user or a judge says of a document, or that no document fits."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    request_id: str = Field(max_length=2 * MAX_ID_CHARS, description="The search")
    question: int = Field(
        0, ge=0, lt=MAX_QUESTIONS, description="The position of the question in the search, from 0"
    )
    action: Literal["click", "thumb_up", "thumb_down", "grade", "nothing_fits"]
    document_id: str | None = Field(
        None,
        min_length=1,
        max_length=MAX_ID_CHARS,
        validate_default=True,
        description="A hit or candidate of the question; null with `nothing_fits`",
    )
    grade: int | None = Field(
        None,
        ge=0,
        le=HIGHEST_GRADE,
        validate_default=True,
        description="0 (does not fit) to 3 (is the answer); with the action `grade` alone",
    )
    rank: int | None = Field(None, ge=1, le=100_000, description="The place where the user saw it, from 1")

    @model_validator(mode="before")
    @classmethod
    def _from_ubi(cls, value: Any) -> Any:
        return _from_ubi_event(value) if isinstance(value, Mapping) and "query_id" in value else value

    @field_validator("document_id")
    @classmethod
    def _check_document(cls, value: str | None, info: ValidationInfo) -> str | None:
        if "action" in info.data and (value is None) != (info.data["action"] == NOTHING_FITS):
            raise ValueError("the action `nothing_fits` takes none, and every other action needs one")
        return value

    @field_validator("grade")
    @classmethod
    def _check_grade(cls, value: int | None, info: ValidationInfo) -> int | None:
        if "action" in info.data and (value is None) == (info.data["action"] == "grade"):
            raise ValueError("the action `grade` needs 0, 1, 2 or 3, and no other action takes one")
        return value


def _from_ubi_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an event of UBI 1.x; whatever else it has is ignored.  Its attributes may also stand beside its other fields."""
    attributes = event.get("event_attributes")
    about = {**event, **attributes} if isinstance(attributes, Mapping) else event

    def within(name: str, field: str) -> Any:
        part = about.get(name)
        return part.get(field) if isinstance(part, Mapping) else about.get(field)

    return {
        "request_id": event["query_id"],
        "question": about.get("question", 0),
        "action": event.get("action_name"),
        "document_id": within("object", "object_id"),
        "grade": about.get("grade"),
        "rank": within("position", "ordinal"),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedQuestion:
    """A question of a request in the audit trail."""

    request_id: str
    question: int
    """Its position in the request, from 0."""
    namespace: str
    configuration: str | None
    text: str | None
    """None if texts are not kept."""
    text_hash: str

    @classmethod
    def of(cls, row: RequestRow, position: int) -> RecordedQuestion:
        names = {name: getattr(row, name) for name in ("request_id", "namespace", "configuration")}
        texts = {name: getattr(row.questions[position], name) for name in ("text", "text_hash")}
        return cls(**names, **texts, question=position)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback(RecordedQuestion):
    """A row of `chorale_feedback`."""

    at_ms: int
    """Milliseconds since 1970."""
    key_id: str
    """The key, or the name of the judge whose file was imported."""
    source: Source
    action_name: str
    object_id: str | None
    grade: int | None
    ordinal: int | None

    @classmethod
    def on(
        cls, question: RecordedQuestion, event: Event, at_ms: int, key_id: str, source: Source
    ) -> Feedback:
        judged: dict[str, Any] = {"action_name": event.action, "object_id": event.document_id}
        judged |= {"grade": event.grade, "ordinal": event.rank}
        return cls(**asdict(question), **judged, at_ms=at_ms, key_id=key_id, source=source)

    def row(self) -> dict[str, Any]:
        """The row.  Its id is the same for the same action of the same key on the same document."""
        identity = [self.request_id, self.question, self.object_id, self.action_name, self.key_id]
        return {
            "feedback_id": hashlib.sha256(to_json(identity)).hexdigest(),
            "tenant": tenant_of(self.request_id) or "",
            **asdict(self),
        }

    @property
    def judgement(self) -> int | None:
        """The grade of the document; None for a click, which is no judgement, and without a document."""
        return self.grade if self.action_name == "grade" else THUMBS.get(self.action_name)


def candidates_of(row: RequestRow) -> dict[int, set[str]]:
    """The documents that the branches reported, by the position of the question."""
    candidates: dict[int, set[str]] = defaultdict(set)
    for branch in row.branches:
        for position, ranking in zip((row.plan or {}).get("searched", []), branch.rankings, strict=False):
            candidates[position].update(hit.document_id for hit in ranking.hits)
    return candidates
