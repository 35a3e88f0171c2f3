"""`chorale search` against a running pipeline: what it prints, and what its exit code says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.command_line import Run
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer


def test_the_best_document_comes_first_with_snippet_branches_and_stages(chorale: Run) -> None:
    found = chorale("search", "how long is the notice period", "--explain", "--top-k", "2")
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    first = next(line for line in lines if line.startswith("1 "))
    assert first.split()[:3] == ["1", "Notice", "periods"]
    assert "#1" in first
    assert any("gives notice three months" in line for line in lines)
    stages = [line.split()[0] for line in lines if line and not line.startswith(" ")]
    assert {"cache", "plan", "search.bm25", "search.vector", "search.hyde", "fuse", "fetch"} <= set(stages)
    assert lines[-1].startswith("complete · 2 hits")
    assert found.stderr == ""


def test_json_is_one_document_on_stdout_and_nothing_else(chorale: Run) -> None:
    found = chorale("search", "ERR-4711", "--branch", "bm25", "--json", "--no-cache")
    answer: dict[str, Any] = json.loads(found.stdout)
    assert found.stdout.count("\n") == 1
    assert found.stderr == ""
    assert (found.returncode, answer["v"], answer["status"]) == (0, 1, "complete")
    hit = answer["questions"][0]["hits"][0]
    assert (hit["document_id"], hit["found_by"]) == ("error", ["bm25"])
    # Not asked for: `--explain` brings it.
    assert "branches" not in hit


def test_a_fusion_method_is_named_on_the_command_line(chorale: Run) -> None:
    found = chorale("search", "ERR-4711", "--fusion", "weaviate-relative", "--json", "--no-cache")
    assert found.returncode == 0, found.stderr
    hits = json.loads(found.stdout)["questions"][0]["hits"]
    assert {hit["score_kind"] for hit in hits} == {"weaviate-relative"}
    unknown = chorale("search", "ERR-4711", "--fusion", "magic", "--no-cache")
    assert "fusion: no 'magic'; there are: bounded, comb-mnz" in unknown.stdout + unknown.stderr


def test_what_follows_the_fusion_is_asked_for_on_the_command_line(chorale: Run) -> None:
    options = [
        "--threshold",
        "fused=0.999",
        "--group-by",
        "shop=2",
        "--diversity",
        "0.3",
        "--context-tokens",
        "60",
        "--context-around",
        "1",
    ]
    found = chorale("search", "ERR-4711", *options, "--no-cache", "--timeout-s", "30")
    assert found.returncode == 0, found.stderr
    assert "[1] Error ERR-4711" in found.stdout
    assert "removed by min_fused_score" in " ".join(found.stdout.split())
    wrong = chorale("search", "ERR-4711", "--threshold", "bm25")
    assert (wrong.returncode, "NAME=SCORE" in wrong.stdout + wrong.stderr) == (2, True)


def test_an_abstained_question_shows_its_hits_and_says_so(chorale: Run) -> None:
    found = chorale("search", "which planet has rings", "--abstain", "0.9", "--explain", "--no-cache")
    shown = " ".join(found.stdout.split())
    assert found.returncode == 0, found.stderr
    assert "abstained: the confidence 0.0" in shown
    assert "(cosine 0." in shown
    assert "complete · 5 hits" in shown


def test_a_filter_that_no_document_meets_gives_no_hits_and_says_so(chorale: Run) -> None:
    found = chorale("search", "bread", "--filter", "colour=red,green")
    assert found.returncode == 0
    assert "complete · no hits" in found.stdout
    assert "warning filter 'colour': no document has this field" in found.stdout
    options = ["--filter", "colour=red", "--relax", "filters.colour", "--autocut", "1", "--no-cache"]
    found = chorale("search", "bread", *options, "--timeout-s", "30")
    assert found.returncode == 0, found.stderr
    assert "· found without filters.colour ·" in " ".join(found.stdout.split())


@pytest.mark.slow
def test_a_degraded_answer_names_what_is_missing_and_has_exit_code_3(
    chorale: Run, pipeline: RunningPipeline
) -> None:
    pipeline.pause("chorale.vector")
    try:
        found = chorale("search", "flour and water", "--no-cache", "--timeout-s", "3")
    finally:
        pipeline.resume("chorale.vector")
    assert found.returncode == 3, found.stdout + found.stderr
    assert "missing search.vector" in found.stdout
    assert "Bread" in found.stdout
    assert found.stdout.splitlines()[-1].startswith("degraded · ")


def test_a_failed_and_a_skipped_question_have_their_exit_codes(
    chorale: Run, pipeline: RunningPipeline
) -> None:
    failed = chorale("search", "bread", "--namespace", "nowhere")
    assert failed.returncode == 4
    assert "missing search.bm25, search.vector, search.hyde bad_index: there is no" in failed.stdout
    home = pipeline.environment["CHORALE_HOME"]
    assert f"chorale: there is no namespace 'nowhere' in {home}; there are: " in failed.stderr
    assert "default" in failed.stderr
    assert home not in failed.stdout
    skipped = chorale("search", " ")
    assert skipped.returncode == 5
    assert skipped.stdout.startswith("skipped · no hits")


def test_where_nothing_runs_a_sentence_says_what_to_start(alone: Run) -> None:
    found = alone("search", "bread", "--json")
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith("chorale: nothing runs on ")
    assert "`chorale up`" in found.stderr


def test_a_redis_without_workers_is_told_apart(alone: Run, redis_server: RedisServer) -> None:
    redis_server.client().flushall()
    found = alone("search", "bread", CHORALE_REDIS_URL=redis_server.url)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith("chorale: Redis answers, but no worker does")
