"""`chorale eval` on a collection of thirty documents, through real workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from chorale_client import Chorale

from tests.support.command_line import Called, in_process
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer

BROKEN = """
import branches.kinds.vector

def broken(part, kinds):
    raise ArithmeticError("broken on purpose")

branches.kinds.vector.expanded_texts = broken
"""
ANIMALS = [
    "aardvark",
    "badger",
    "camel",
    "dolphin",
    "eagle",
    "ferret",
    "gazelle",
    "heron",
    "ibex",
    "jackal",
    "kangaroo",
    "lemur",
    "marmot",
    "narwhal",
    "otter",
    "penguin",
    "quail",
    "raccoon",
    "salmon",
    "tapir",
    "urchin",
    "viper",
    "walrus",
    "yak",
    "zebra",
    "bison",
    "cobra",
    "dingo",
    "emu",
    "falcon",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each question names its animal, and the sixth document is a copy of the fifth."""
    folder = tmp_path_factory.mktemp("collections") / "animals"
    (folder / "qrels").mkdir(parents=True)
    texts = [f"The {name} is described on this page and on no other." for name in ANIMALS]
    texts[5] = texts[4]
    documents = [{"_id": f"d{n}", "title": "", "text": text} for n, text in enumerate(texts)]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    questions = [{"_id": f"q{n}", "text": f"where is the {ANIMALS[n]} described?"} for n in range(5)]
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


@pytest.mark.slow
def test_a_judged_collection_is_indexed_asked_and_measured(
    pipeline: RunningPipeline, folder: Path, tmp_path: Path
) -> None:
    drawn = tmp_path / "figures.html"
    done = _eval(pipeline, folder, "--json", "--fusion", "tm2c2", "--fusion", "elastic", "--plot", str(drawn))

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["v"], found["collection"], found["documents"], found["questions"]) == (1, "animals", 30, 5)
    by_name = {run["name"]: run for run in found["runs"]}
    configurations = ["rrf", "scores", "rrf-grouped", "rrf-two"]
    assert list(by_name) == ["bm25", "vector", "hyde", *configurations, "fusion=tm2c2", "fusion=elastic"]
    # The weights are the default's, and so are k and depth.
    assert {**by_name["fusion=elastic"], "name": "rrf"} == by_name["rrf"]
    assert all(0 <= run[name] <= 1 for run in found["runs"] for name in run if name != "name")
    assert all(f"<td>{name}</td>" in drawn.read_text() for name in by_name)
    best = found["best_scores"]
    assert set(best) == {"bm25", "vector", "hyde"}
    assert best["bm25"] > 1 > best["vector"] > 0
    # BM25 finds each animal's own page first; of the copies one stands first and the other right behind it.
    assert by_name["bm25"]["recall@10"] == 1
    assert by_name["bm25"]["mrr@10"] >= (4 + 1 / 2) / 5
    # The fusion folds the copy away, which must cost it nothing.
    assert by_name["rrf"]["recall@100"] == 1


@pytest.mark.slow  # it reads what the test before has indexed
def test_the_corpus_stays_in_a_namespace_of_its_own(pipeline: RunningPipeline, folder: Path) -> None:
    namespaces = {state.name: state.documents for state in pipeline.resources.writing_store.namespaces()}
    assert namespaces == {"eval-animals": 30}
    client = Chorale(pipeline.server.url)
    assert client.retrieve("the walrus", namespace="eval-animals", cache="bypass").hits


@pytest.mark.slow
def test_two_configurations_are_compared_and_recorded_answers_compare_like_asked_ones(
    pipeline: RunningPipeline, folder: Path, tmp_path: Path
) -> None:
    done = in_process(
        "compare", "baseline", "rrf", str(folder), "--record", str(tmp_path), "--json", **pipeline.environment
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["collection"], found["a"], found["b"], found["faults"]) == (
        "animals",
        "baseline",
        "rrf",
        [0, 0],
    )
    assert found["gain"]["wins"] + found["gain"]["losses"] + found["gain"]["ties"] == 5
    parts = [
        set(place["branches"])
        for mover in found["movers"]
        for document in mover["documents"]
        if (place := document["before"])
    ]
    assert all(part == {"bm25"} for part in parts)

    files = [str(tmp_path / f"{name}.jsonl") for name in ("baseline", "rrf")]
    again = json.loads(in_process("compare", *files, str(folder), "--json", **pipeline.environment).stdout)
    assert (again["gain"], again["means"], again["movers"]) == (
        found["gain"],
        found["means"],
        found["movers"],
    )


@pytest.mark.slow
def test_wrong_usage_prints_one_sentence_and_no_traceback(pipeline: RunningPipeline, folder: Path) -> None:
    done = _eval(pipeline, folder, "--split", "dev")
    assert done.returncode == 2
    assert "no split 'dev'; there are: test" in done.stderr
    done = _eval(pipeline, folder, "--fusion", "magic")
    assert done.returncode == 2
    assert "no fusion method 'magic'; there are: bounded, comb-mnz" in done.stderr


@pytest.mark.slow
def test_degraded_answers_are_reported_and_the_exit_code_is_3(
    folder: Path, pipeline: RunningPipeline
) -> None:
    pipeline.kill("chorale.vector")
    pipeline.preload = BROKEN
    pipeline.start("chorale.vector")
    pipeline.wait_ready()

    done = _eval(pipeline, folder, "--json", "--limit", "1")

    assert done.returncode == 3
    # `vector` alone, and the four configurations that ask it.
    assert "5 answers were not whole" in done.stderr
    assert "rrf: search.vector error: 1" in done.stderr
    assert len(json.loads(done.stdout)["runs"]) == 7
