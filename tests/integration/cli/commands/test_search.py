"""`chorale search` against a running pipeline: what it prints, and what its exit code says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.cli.commands.printed import complaint, document, output
from tests.support.command_line import Run
from tests.support.faults.moments import joining_without_one_branch
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer

BM25_ALONE = '{"branches": ["bm25"], "cache": "bypass"}'


def test_the_best_document_comes_first_with_snippet_branches_and_stages(chorale: Run) -> None:
    called = chorale("search", "how long is the notice period", "--explain", "--top-k", "2")
    assert (called.returncode, called.stderr) == (0, "")
    lines = called.stdout.splitlines()
    first = next(line for line in lines if line.startswith("1 "))
    assert first.split()[:3] == ["1", "Notice", "periods"]
    assert "#1" in first
    assert "gives notice three months" in called.stdout
    stages = {line.split()[0] for line in lines if line and not line.startswith(" ")}
    assert {"cache", "plan", "search.bm25", "search.vector", "search.hyde", "fuse", "fetch"} <= stages
    assert lines[-1].startswith("complete · 2 hits")


def test_json_is_one_document_on_stdout_and_nothing_else(chorale: Run) -> None:
    called = chorale("search", "ERR-4711", "--json", "--options", BM25_ALONE)
    answer = document(called)
    assert (called.stdout.count("\n"), called.stderr) == (1, "")
    assert (answer["v"], answer["status"]) == (1, "complete")
    hit = answer["questions"][0]["hits"][0]
    assert (hit["document_id"], hit["found_by"]) == ("error", ["bm25"])
    # Not asked for: `--explain` brings it.
    assert "branches" not in hit


def test_what_follows_the_fusion_is_asked_for_on_the_command_line(chorale: Run) -> None:
    options: dict[str, Any] = {
        "thresholds": {"min_fused_score": 0.999},
        "group_by": {"field": "shop", "size": 2},
    }
    options |= {"diversity": 0.3, "context_tokens": 60, "context_around": 1, "timeout_s": 30}
    words = output(chorale("search", "ERR-4711", "--options", json.dumps(options)))
    assert "[1] Error ERR-4711" in words
    assert "removed: min_fused_score " in words


def test_an_abstained_question_shows_its_hits_and_says_so(chorale: Run) -> None:
    options = ("--options", '{"abstain": 0.9, "cache": "bypass"}', "--explain")
    words = output(chorale("search", "which planet has rings", *options))
    for part in ("abstained: the confidence 0.0", "(cosine 0.", "complete · 5 hits"):
        assert part in words


def test_a_filter_that_no_document_meets_gives_no_hits_and_says_so(chorale: Run) -> None:
    words = output(chorale("search", "bread", "--filter", "colour=red,green"))
    assert "complete · no hits" in words
    assert "warning filter 'colour': no document has this field" in words
    relaxed = '{"relax": ["filters.colour"], "autocut": 1, "timeout_s": 30}'
    words = output(chorale("search", "bread", "--filter", "colour=red", "--options", relaxed))
    assert "· found without filters.colour ·" in words


@pytest.mark.slow
def test_a_degraded_answer_names_what_is_missing_and_has_exit_code_3(
    chorale: Run, pipeline: RunningPipeline
) -> None:
    pipeline.pause("chorale.vector")
    try:
        with joining_without_one_branch(pipeline):
            called = chorale("search", "flour and water", "--options", '{"cache": "bypass", "timeout_s": 20}')
    finally:
        pipeline.resume("chorale.vector")
    words = output(called, 3)
    assert "missing search.vector" in words
    assert "Bread" in words
    assert called.stdout.splitlines()[-1].startswith("degraded · ")


def test_a_failed_and_a_skipped_question_have_their_exit_codes(
    chorale: Run, pipeline: RunningPipeline
) -> None:
    failed = chorale("search", "bread", "--namespace", "nowhere")
    assert "missing search.bm25, search.vector, search.hyde bad_index: there is no" in output(failed, 4)
    home = pipeline.environment["CHORALE_HOME"]
    assert f"chorale: there is no namespace 'nowhere' in {home}; there are: " in failed.stderr
    assert ("default" in failed.stderr, home in failed.stdout) == (True, False)
    assert output(chorale("search", " "), 5).startswith("skipped · no hits")


def test_where_nothing_runs_or_no_worker_answers_a_sentence_says_so(
    alone: Run, redis_server: RedisServer
) -> None:
    sentence = complaint(alone("search", "bread", "--json"))
    assert sentence.startswith("chorale: nothing runs on ")
    assert "`chorale up`" in sentence
    redis_server.client().flushall()
    sentence = complaint(alone("search", "bread", CHORALE_REDIS_URL=redis_server.url))
    assert sentence.startswith("chorale: Redis answers, but no worker does")
