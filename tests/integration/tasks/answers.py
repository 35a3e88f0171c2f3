"""Reads document ids and reasons from an answer."""

from __future__ import annotations

from chorale_client.answer import Answer


def ids(answer: Answer) -> list[str]:
    return [hit.document_id for hit in answer.hits]


def reasons(answer: Answer) -> list[tuple[str, str]]:
    return [(line.where, line.reason) for line in answer.degraded]
