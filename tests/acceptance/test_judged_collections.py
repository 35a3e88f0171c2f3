"""Part of a judged collection through real workers: its first questions, their documents, and some others."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from zipfile import ZipFile

import pytest

from evaluation.judged import run
from tests.support.command_line import in_process
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.services import missing

pytestmark = [pytest.mark.slow, pytest.mark.limit_s(300)]

RUNS = ("bm25", "vector", "rrf", "scores")


@pytest.fixture(autouse=True)
def _runs_that_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other configurations of the pipeline would take two thirds of the time."""
    runs_of = run.runs_of
    monkeypatch.setattr(
        run, "runs_of", lambda *arguments: [one for one in runs_of(*arguments) if one.name in RUNS]
    )


@pytest.fixture(scope="module")
def pipeline() -> Iterator[RunningPipeline]:
    with RedisServer() as server, RunningPipeline(server) as running:
        yield running


def part_of(name: str, into: Path, *, questions: int, documents: int) -> Path:
    """A folder with the beginning of the collection, of the archives that CHORALE_TEST_DATA names."""
    archive = Path(os.environ.get("CHORALE_TEST_DATA", "")) / f"{name}.zip"
    if not archive.is_file():
        missing(f"CHORALE_TEST_DATA names no folder with {name}.zip")
    with ZipFile(archive) as packed:
        judged = packed.read("qrels/test.tsv").decode().splitlines()
        ids = dict.fromkeys(line.split("\t")[0] for line in judged[1:])
        chosen = set(islice(ids, questions))
        rows = [line for line in judged[1:] if line.split("\t")[0] in chosen]
        answers = {row.split("\t")[1] for row in rows}
        corpus = [json.loads(line) for line in packed.open("corpus.jsonl")]
        corpus.sort(key=lambda document: document["_id"] not in answers)
        (into / "qrels").mkdir()
        (into / "qrels" / "test.tsv").write_text("\n".join([judged[0], *rows]))
        (into / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus[:documents])))
        (into / "queries.jsonl").write_bytes(packed.read("queries.jsonl"))
    return into


def ndcg(pipeline: RunningPipeline, folder: Path) -> dict[str, float]:
    done = in_process("eval", str(folder), "--json", **pipeline.environment)
    assert done.returncode == 0, done.stderr
    return {one["name"]: one["ndcg@10"] for one in json.loads(done.stdout)["runs"]}


@pytest.mark.long
def test_a_language_that_the_encoder_does_not_know_costs_the_default_nothing(
    pipeline: RunningPipeline, tmp_path: Path
) -> None:
    results = ndcg(pipeline, part_of("squad-it", tmp_path, questions=60, documents=60))
    assert results["vector"] < results["bm25"] - 0.2
    assert results["rrf"] >= results["bm25"] - 0.01
    assert results["scores"] >= results["bm25"] - 0.01


@pytest.mark.parametrize(
    ("questions", "documents", "fusions"),
    [(40, 60, ["scores"]), pytest.param(60, 150, ["scores", "rrf"], marks=pytest.mark.long)],
)
def test_where_the_encoder_knows_the_language_a_fusion_is_better_than_words_or_vectors_alone(
    pipeline: RunningPipeline, tmp_path: Path, questions: int, documents: int, fusions: list[str]
) -> None:
    results = ndcg(pipeline, part_of("scifact", tmp_path, questions=questions, documents=documents))
    assert min(results[fusion] for fusion in fusions) > max(results["bm25"], results["vector"])
