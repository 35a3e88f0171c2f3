"""`chorale eval` on a collection of thirty documents, through real workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from chorale_client import Chorale

from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer

BROKEN = """
import branches.kinds.vector

def broken(part, kinds):
    raise ArithmeticError("broken on purpose")

branches.kinds.vector.expanded_texts = broken
"""
ROOT = Path(__file__).parents[3]
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
    with RedisServer() as server, RunningPipeline(server) as running:
        yield running


def _eval(pipeline: RunningPipeline, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cli", "eval", str(folder), *options],
        cwd=ROOT,
        env={**os.environ, **pipeline.environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_judged_collection_is_indexed_asked_and_measured(pipeline: RunningPipeline, folder: Path) -> None:
    done = _eval(pipeline, folder, "--json")

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["v"], found["collection"], found["documents"], found["questions"]) == (1, "animals", 30, 5)
    by_name = {run["name"]: run for run in found["runs"]}
    assert list(by_name) == ["bm25", "vector", "hyde", "rrf", "rrf-grouped", "rrf-two"]
    assert all(0 <= run[name] <= 1 for run in found["runs"] for name in run if name != "name")
    # BM25 finds each animal's own page first; of the copies one stands first and the other right behind it.
    assert by_name["bm25"]["recall@10"] == 1
    assert by_name["bm25"]["mrr@10"] >= (4 + 1 / 2) / 5
    # The fusion folds the copy away, which must cost it nothing.
    assert by_name["rrf"]["recall@100"] == 1


def test_the_corpus_stays_in_a_namespace_of_its_own(pipeline: RunningPipeline, folder: Path) -> None:
    namespaces = {state.name: state.documents for state in pipeline.resources.writing_store.namespaces()}
    assert namespaces == {"eval-animals": 30}
    client = Chorale(pipeline.server.url)
    assert client.retrieve("the walrus", namespace="eval-animals", cache="bypass").hits


def test_wrong_usage_prints_one_sentence_and_no_traceback(pipeline: RunningPipeline, folder: Path) -> None:
    done = _eval(pipeline, folder, "--split", "dev")
    assert done.returncode == 2
    assert "no split 'dev'; there are: test" in done.stderr


def test_degraded_answers_are_reported_and_the_exit_code_is_3(
    folder: Path, pipeline: RunningPipeline
) -> None:
    pipeline.kill("chorale.vector")
    pipeline.preload = BROKEN
    pipeline.start("chorale.vector")
    pipeline.wait_ready()

    done = _eval(pipeline, folder, "--json", "--limit", "1")

    assert done.returncode == 3
    # `vector` alone, and the three configurations that ask it.
    assert "4 answers were not whole" in done.stderr
    assert "rrf: search.vector error: 1" in done.stderr
    assert len(json.loads(done.stdout)["runs"]) == 6
