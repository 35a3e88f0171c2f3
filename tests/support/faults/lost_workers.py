"""The answers of requests whose branch or fusion worker was killed or hung at one place of its step."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from tests.support.faults.moments import end_without_fusion, join_without_one_branch
from tests.support.faults.observers import Seen, order_by, striking
from tests.support.faults.serving import ALL
from tests.support.pipelines.pipeline import RunningPipeline

KILLED = -9

BM25_GONE: Mapping[str, tuple[str, list[tuple[str, str]], list[str]]] = {
    "before_start": ("degraded", [("search.bm25", "not_started")], ["vector", "hyde"]),
    "after_start": ("degraded", [("search.bm25", "timeout")], ["vector", "hyde"]),
    "before_report": ("degraded", [("search.bm25", "timeout")], ["vector", "hyde"]),
    "while_report": ("complete", [], ALL),
    "after_report": ("complete", [], ALL),
}
"""By place: the status, the missing parts, and the branches whose hits are there."""

FUSION_GONE: Mapping[str, tuple[str, list[tuple[str, str]]]] = {
    "before_join": ("degraded", [("fuse", "not_started")]),
    "after_join": ("degraded", [("fuse", "timeout")]),
    "before_finish": ("degraded", [("fuse", "timeout")]),
    "while_finish": ("complete", []),
    "after_finish": ("complete", []),
}
"""By place: the status and the missing parts; every hit is there, because the sweeper fuses too."""


def places(table: Mapping[str, object], first: Container[str]) -> list[Any]:
    """Returns the places of a table as parameters of a test; those that are not `first` are slow."""
    return [pytest.param(place, marks=() if place in first else pytest.mark.slow) for place in table]


def bm25_is_gone(pipeline: RunningPipeline, where: str, fault: str) -> Seen:
    """Kills or hangs the worker of bm25 at this place, and checks that this costs only what it had not reported."""
    status, missing, healthy = BM25_GONE[where]
    expected = order_by(pipeline, healthy)
    answering = striking(pipeline, f"branch.{where}", fault, "chorale.bm25", timeout_s=20)
    if missing:
        join_without_one_branch(pipeline)
    return _checked(answering, status, missing, expected, healthy)


def fusion_is_gone(pipeline: RunningPipeline, where: str, fault: str) -> Seen:
    """Kills or hangs the fusion worker at this place, and checks that this costs no hit."""
    status, missing = FUSION_GONE[where]
    expected = order_by(pipeline, ALL)
    answering = striking(pipeline, f"fusion.{where}", fault, "chorale.fusion", timeout_s=20)
    if missing:
        end_without_fusion(pipeline)
    return _checked(answering, status, missing, expected, ALL)


def _checked(
    answering: Future[Seen],
    status: str,
    missing: list[tuple[str, str]],
    documents: list[str],
    branches: Sequence[str],
) -> Seen:
    seen = answering.result(60)
    assert (seen.status, seen.missing) == (status, missing)
    assert (seen.documents, seen.branches) == (documents, set(branches))
    return seen


def assert_was_killed(pipeline: RunningPipeline, name: str) -> None:
    assert pipeline.processes[name].wait(30) == KILLED


def assert_next_is_whole(pipeline: RunningPipeline, branches: Sequence[str] = ALL) -> None:
    answer = pipeline.client().retrieve("bread", branches=list(branches), cache="bypass", timeout_s=20)
    assert answer.status == "complete", answer.degraded
