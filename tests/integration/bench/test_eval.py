"""`chorale eval` on a collection of thirty documents, through real workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chorale_client import Chorale

from tests.support.command_line import Called, in_process
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer

pytestmark = pytest.mark.slow
BROKEN = """
import tasks.branches.searches

def broken(part):
    raise ArithmeticError("broken on purpose")

object.__setattr__(tasks.branches.searches.KINDS["vector"], "search", broken)
"""
ANIMALS = [f"animal{n}" for n in range(30)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each question names its animal, the sixth document is a copy of the fifth, and the last is the first question."""
    folder = tmp_path_factory.mktemp("collections") / "animals"
    (folder / "qrels").mkdir(parents=True)
    texts = [f"The {name} is described on this page and on no other." for name in ANIMALS]
    texts[5] = texts[4]
    documents = [{"_id": f"d{n}", "title": "", "text": text} for n, text in enumerate(texts)]
    questions = [{"_id": f"q{n}", "text": f"where is the {ANIMALS[n]} described?"} for n in range(5)]
    questions[0]["text"] = ANIMALS[0]
    documents.append(questions[0])
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, questions)))
    # The copy is as good an answer to the last question, and the only one that was judged.
    judged = [f"q{n}\td{n}\t1" for n in range(4)] + ["q4\td5\t1"]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]))
    return folder


@pytest.fixture(scope="module")
def pipeline() -> Iterator[RunningPipeline]:
    with RedisServer() as server, RunningPipeline(server, alone=["chorale.vector"]) as running:
        yield running


def _eval(pipeline: RunningPipeline, folder: Path, *options: str) -> Called:
    return in_process("eval", str(folder), *options, **pipeline.environment)


def test_a_judged_collection_is_indexed_in_a_namespace_of_its_own_asked_and_measured(
    pipeline: RunningPipeline, folder: Path
) -> None:
    done = _eval(pipeline, folder, "--json", "--fusion", "tm2c2", "--fusion", "elastic")
    assert done.returncode == 0, done.stderr
    wire = json.loads(done.stdout)
    assert (wire["v"], wire["collection"], wire["documents"], wire["questions"]) == (1, "animals", 31, 5)
    line = "left out of the answers: 1 document that is the question itself (same id and text)"
    assert done.stderr.splitlines().count(line) == 1
    by_name = {run["name"]: run for run in wire["runs"]}
    configurations = ["rrf", "scores", "rrf-grouped", "rrf-two", "late-fusion"]
    assert list(by_name) == ["bm25", "vector", "hyde", *configurations, "fusion=tm2c2", "fusion=elastic"]
    # The weights are the default's, and so are k and depth.
    assert {**by_name["fusion=elastic"], "name": "rrf"} == by_name["rrf"]
    assert all(0 <= run[name] <= 1 for run in wire["runs"] for name in run if name != "name")
    best = wire["best_scores"]
    assert set(best) == {"bm25", "vector", "hyde"}
    assert best["bm25"] > 1 > best["vector"] > 0
    # BM25 finds each animal's own page first; of the copies one stands first and the other right behind it.
    assert by_name["bm25"]["recall@10"] == 1
    assert by_name["bm25"]["mrr@10"] >= (4 + 1 / 2) / 5
    # The fusion folds the copy away, which must cost it nothing.
    assert by_name["rrf"]["recall@100"] == 1

    # The corpus stays in a namespace of its own.
    namespaces = {state.name: state.documents for state in pipeline.resources.writing_store.namespaces()}
    assert namespaces == {"eval-animals": 31}
    client = Chorale(pipeline.server.url)
    assert client.retrieve("the animal7", namespace="eval-animals", cache="bypass", timeout_s=20).hits


def test_two_configurations_are_compared_and_recorded_answers_compare_like_asked_ones(
    pipeline: RunningPipeline, folder: Path, tmp_path: Path
) -> None:
    def compared(*options: str) -> dict[str, Any]:
        done = in_process("compare", *options, "--json", **pipeline.environment)
        assert done.returncode == 0, done.stderr
        wire: dict[str, Any] = json.loads(done.stdout)
        return wire

    wire = compared("bm25", "rrf", str(folder), "--record", str(tmp_path))
    assert (wire["collection"], wire["a"], wire["b"]) == ("animals", "bm25", "rrf")
    assert wire["faults"] == [0, 0]
    assert wire["gain"]["wins"] + wire["gain"]["losses"] + wire["gain"]["ties"] == 5
    for mover in wire["movers"]:
        places = [document["before"] for document in mover["documents"] if document["before"]]
        assert all(set(place["branches"]) == {"bm25"} for place in places)

    again = compared(str(tmp_path / "bm25.jsonl"), str(tmp_path / "rrf.jsonl"), str(folder))
    for part in ("gain", "means", "movers"):
        assert again[part] == wire[part]


def test_wrong_usage_prints_one_sentence_and_no_traceback(pipeline: RunningPipeline, folder: Path) -> None:
    for option, value, why in (
        ("--split", "dev", "no split 'dev'; there are: test"),
        ("--fusion", "magic", "no fusion method 'magic'; there are: bounded, comb-mnz"),
    ):
        done = _eval(pipeline, folder, option, value)
        assert done.returncode == 2
        assert why in done.stderr


def test_degraded_answers_are_reported_and_the_exit_code_3(folder: Path, pipeline: RunningPipeline) -> None:
    pipeline.kill("chorale.vector")
    pipeline.preload = BROKEN
    pipeline.start("chorale.vector")
    pipeline.wait_ready()
    done = _eval(pipeline, folder, "--json", "--limit", "1")
    assert done.returncode == 3
    # `vector` alone, and the five configurations that ask it.
    assert "6 answers were not whole" in done.stderr
    assert "rrf: search.vector error: 1" in done.stderr
    assert len(json.loads(done.stdout)["runs"]) == 8
