"""The pages that two configurations shared, each hit with its team, and what people then said of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chorale_client.wire_names import Stage
from pydantic_core import from_json
from sqlalchemy import Engine, select

from fusion.interleaving import Team
from models.tables.audit import RequestRow
from records.audit.queries import Which
from records.judgements.feedback import Feedback
from records.judgements.store import by_people


@dataclass(frozen=True, slots=True)
class Impression:
    """A shared page."""

    request_id: str
    teams: Mapping[str, Team]
    """By document, those that belong to a team; empty where both configurations rank alike."""
    feedback: Sequence[Feedback] = ()
    """Of people, oldest first."""


def impressions(engine: Engine, a: str, b: str, which: Which | None = None) -> list[Impression]:
    """The requests that `a` answered with `b` as rival, in the order in which they were accepted.

    Of a namespace, only those count in which both had the weights of its last one.
    """
    rival = RequestRow.plan["rival"]["configuration"].as_string()
    conditions = RequestRow.configuration == a, rival == b, *(which or Which()).conditions()
    weighted = [RequestRow.plan["branches"], RequestRow.plan["rival"]["branches"]]
    rows = select(RequestRow.request_id, RequestRow.stages, RequestRow.namespace, *weighted).where(
        *conditions
    )
    by_request: dict[str, list[Feedback]] = defaultdict(list)
    for event in by_people(engine, select(RequestRow.request_id).where(*conditions)):
        by_request[event.request_id].append(event)
    with engine.connect() as connection:
        ordered = connection.execute(rows.order_by(RequestRow.accepted_at_ms, RequestRow.request_id))
        read = [(id_, stages, of, _weights(*branches)) for id_, stages, of, *branches in ordered]
    newest = {of: weights for _, _, of, weights in read}
    # A worker of another version may have fused without the rival.
    return [
        Impression(id_, _teams(stage["detail"]), by_request[id_])
        for id_, stages, of, weights in read
        if weights == newest[of]
        for stage in stages
        if stage["stage"] == Stage.INTERLEAVE
    ]


def _weights(*sides: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    return [{branch["name"]: branch["weight"] for branch in branches} for branches in sides]


def _teams(detail: str) -> dict[str, Team]:
    by_team: Mapping[Team, Sequence[str]] = from_json(detail)
    return {document: team for team, documents in by_team.items() for document in documents}
