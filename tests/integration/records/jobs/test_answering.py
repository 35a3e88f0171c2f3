"""A job's lines are answered by real workers as interactive requests are, and each of them once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chorale_client import make_request
from pydantic_core import from_json

from models.declarations.extensions import Kinds
from records.jobs.job import Line, Outcome
from tasks.wiring.pipeline import BUILT_IN
from tests.support.pipelines.bulk import (
    BULK,
    SERVED,
    answered,
    documents,
    line,
    results,
    submit,
    wait_ended,
)
from tests.support.pipelines.pipeline import CORPUS, RunningPipeline
from tests.support.servers.redis_server import RedisServer

QUESTIONS = [text for title, text in CORPUS.values()] + [title for title, text in CORPUS.values()]

PRELOAD = """
from dataclasses import replace
from tasks.jobs import answering, feeder
from tasks.wiring.pipeline import BUILT_IN
from models.errors import StoreUnavailable
from tests.support.pipelines.kinds import declare_kinds

# A job is begun at once.  Nobody dies here, so the leases stay as long as they are.
feeder.IDLE_S, answering.AGAIN_MS = 0.1, 50
bm25 = BUILT_IN.branches["bm25"]

def flaky(part):
    # `away 2` fails twice.
    for text in part.texts:
        before, _, times = text.partition("away ")
        if times and part.resources.redis.incr(f"asked:{text}") <= int(times):
            raise StoreUnavailable("nobody answers")
        if "poison" in text:
            raise RuntimeError("the disk is on fire")
    return bm25.search(part)

declare_kinds({"flaky": replace(bm25, search=flaky)})
"""


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    """The usual pipeline, whose branch `bm25` fails for some questions."""
    file = tmp_path_factory.mktemp("flaky") / "pipeline.toml"
    file.write_text(Path("config/pipeline.toml").read_text().replace('kind = "bm25"', 'kind = "flaky"'))
    kinds = BUILT_IN | Kinds(branches={"flaky": BUILT_IN.branches["bm25"]})
    options: dict[str, Any] = {"pipeline_file": file, "kinds": kinds, "preload": PRELOAD}
    with (
        RedisServer() as server,
        RunningPipeline(server, queues=[SERVED, BULK], sweeper=True, **options) as running,
    ):
        running.index()
        yield running


def alike(value: Any) -> Any:
    """The value with rounded numbers: vectors of a batch differ from those of one question in the eighth decimal."""
    if isinstance(value, dict):
        return {name: alike(one) for name, one in value.items()}
    if isinstance(value, list):
        return [alike(one) for one in value]
    return round(value, 4) if isinstance(value, float) else value


def interactive_pages(pipeline: RunningPipeline, *texts: str, **options: Any) -> list[dict[str, Any]]:
    """The pages of an interactive request, as they were written."""
    request = make_request(list(texts), cache="bypass", timeout_s=20, **options)
    pipeline.client().ask(request)
    wire = pipeline.resources.callers_ledger.result(request.request_id)
    assert wire is not None
    pages: list[dict[str, Any]] = from_json(wire)["result"]["questions"]
    return pages


OPTIONS: list[dict[str, Any]] = [
    {"top_k": 1},
    {"include": ["ids"]},
    {"branches": ["bm25"]},
    {"exclude_ids": ["error"]},
    {"thresholds": {"min_fused_score": 0.9}, "context_tokens": 60},
    {"group_by": "shop", "diversity": 0.3},
    {"abstain": 0.99, "include": ["explanation"]},
    {"filters": {"shop": "x"}, "relax": ["filters.shop"], "autocut": 1},
]


@pytest.mark.slow
def test_every_line_is_answered_as_an_interactive_request_is(pipeline: RunningPipeline) -> None:
    questions = [*(("ERR-4711", options) for options in OPTIONS), *((text, {}) for text in QUESTIONS)]

    results = answered(
        pipeline, [line(at, text, **options) for at, (text, options) in enumerate(questions, 1)], name="all"
    )

    assert {result["status"] for result in results.values()} == {"complete"}
    for at, (text, options) in enumerate(questions, 1):
        (page,) = interactive_pages(pipeline, text, **options)
        for name in ("hits", "removed", "relaxed", "context", "abstained"):
            assert alike(results[at].get(name)) == alike(page.get(name)), options
        assert results[at].get("confidence") == pytest.approx(page.get("confidence"), abs=0.001)
        assert results[at]["coverage"] == pytest.approx(page["coverage"])
        assert (results[at]["id"], results[at]["error"], results[at]["degraded"]) == (f"q{at}", None, [])
    assert results[5]["removed"]["min_fused_score"] > 0
    assert results[6]["removed"] == {"group_by": 0}
    assert "ERR-4711" in results[5]["context"]["text"]
    assert (results[8]["relaxed"], results[8]["removed"].keys()) == (["filters.shop"], {"autocut"})
    assert (results[7]["abstained"], "cosine" in results[7]["signals"]) == (True, True)


def test_a_line_has_a_page_for_each_of_its_questions(pipeline: RunningPipeline) -> None:
    texts = ["bread", "ERR-4711", "deposit"]
    several = Line(1, "three", {"questions": [{"text": text} for text in texts], "cache": "bypass"})
    thirty = [{"text": f"bread {number}"} for number in range(30)]
    wide = [Line(at, f"q{at}", {"questions": thirty}) for at in range(3, 8)]

    results = answered(pipeline, [several, line(2, "repairs", cache="bypass"), *wide])

    assert "hits" not in results[1]
    pages = interactive_pages(pipeline, *texts)
    assert [alike(page["hits"]) for page in results[1]["questions"]] == [
        alike(page["hits"]) for page in pages
    ]
    assert documents(results[2])[0] == "repairs"
    assert [len(results[at]["questions"]) for at in range(3, 8)] == [30] * 5


def test_equal_lines_are_answered_once(pipeline: RunningPipeline) -> None:
    same = [line(at, "Who pays for the same repair?", cache="bypass") for at in (1, 2, 3)]

    results = answered(pipeline, [*same, line(4, "Who pays for another?", cache="bypass")])

    assert [results[at]["deduplicated"] for at in results] == [False, True, True, False]
    assert results[1]["hits"] == results[2]["hits"] == results[3]["hits"] != results[4]["hits"]


def test_the_answer_cache_is_used_and_filled(pipeline: RunningPipeline) -> None:
    text = "How long is the notice of a tenant?"

    first = answered(pipeline, [line(1, text)])
    second = answered(pipeline, [line(1, text)])

    assert (first[1]["deduplicated"], second[1]["deduplicated"]) == (False, True)
    assert first[1]["hits"] == second[1]["hits"]
    assert pipeline.client().retrieve(text, timeout_s=20).cached


def test_a_line_that_is_refused_or_fails_costs_no_other_line(pipeline: RunningPipeline) -> None:
    refused = Line(2, "wrong", None, "text: must not be empty")
    wrong = line(4, "deposit", configuration="none such")

    results = answered(pipeline, [line(1, "bread"), refused, line(3, "deposit"), wrong])

    assert [results[at]["status"] for at in results] == ["complete", "refused", "complete", "failed"]
    assert results[2]["error"] == "text: must not be empty"
    assert "none such" in results[4]["error"]


def test_a_job_on_a_namespace_that_does_not_exist_fails_with_the_reason(pipeline: RunningPipeline) -> None:
    job_id = submit(pipeline, [line(at, f"question {at}") for at in (1, 2)], namespace="nowhere")
    assert wait_ended(pipeline, job_id).outcome == Outcome.FAILED
    for result in results(pipeline, job_id).values():
        assert result["status"] == "failed"
        assert "nowhere" in result["error"]


@pytest.mark.parametrize(("times", "status"), [(3, "complete"), (4, "failed")])
def test_a_line_is_answered_again_three_times_while_its_store_is_away(
    pipeline: RunningPipeline, times: int, status: str
) -> None:
    results = answered(pipeline, [line(1, f"bread away {times}", branches=["bm25"])])

    assert results[1]["status"] == status
    assert pipeline.redis.get(f"asked:bread away {times}") == b"4"
    assert ("unavailable" in (results[1]["error"] or "")) == (status == "failed")


def test_lines_of_a_failing_search_are_answered_one_by_one(pipeline: RunningPipeline) -> None:
    texts = enumerate(("bread", "poison", "deposit"), start=1)
    results = answered(pipeline, [line(at, text, branches=["bm25"]) for at, text in texts])

    assert [results[at]["status"] for at in results] == ["complete", "failed", "complete"]
    assert "the disk is on fire" in results[2]["error"]
    assert [documents(results[at])[0] for at in (1, 3)] == ["bread", "deposit"]
