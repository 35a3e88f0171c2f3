"""`chorale tune` on a collection of thirty documents; its replays beside the answers of real workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from chorale_client import Chorale

from evaluation.judged.run import ranked_documents
from evaluation.tuning.branch_lists import JudgedQuestion, OfflineFusion, record
from tests.integration.cli.commands.printed import complaint, document
from tests.support.command_line import Called, in_process
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer

PLACES = ["harbour", "market", "library", "station", "bakery", "museum"]
THINGS = ["lamp", "boat", "clock", "bridge", "garden"]
TEXTS = {
    f"d{at}": f"The {thing} at the {place} was mended by the smith, who asked {at + 3} coins for it."
    for at, (place, thing) in enumerate((place, thing) for place in PLACES for thing in THINGS)
}
TEXTS["d29"] = TEXTS["d28"]
QUESTIONS = {
    f"q{at}": f"who mended the {text.split()[1]} near the {text.split()[4]}?"
    for at, text in enumerate(TEXTS.values())
}
ASKED = [JudgedQuestion(id_, text, "eval-things") for id_, text in QUESTIONS.items()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("collections") / "things"
    (folder / "qrels").mkdir(parents=True)
    documents = [json.dumps({"_id": id_, "title": "", "text": text}) for id_, text in TEXTS.items()]
    questions = [json.dumps({"_id": id_, "text": text}) for id_, text in QUESTIONS.items()]
    judged = ["query-id\tcorpus-id\tscore", *(f"q{at}\td{at}\t1" for at in range(len(QUESTIONS)))]
    for name, rows in {
        "corpus.jsonl": documents,
        "queries.jsonl": questions,
        "qrels/train.tsv": judged,
    }.items():
        (folder / name).write_text("\n".join(rows))
    return folder


@pytest.fixture(scope="module")
def pipeline() -> Iterator[RunningPipeline]:
    with RedisServer() as server, RunningPipeline(server) as running:
        yield running


def _tune(pipeline: RunningPipeline, *options: str) -> Called:
    return in_process("tune", *options, **pipeline.environment)


@pytest.mark.slow
def test_a_fusion_of_recorded_lists_ranks_as_the_workers_do(pipeline: RunningPipeline, folder: Path) -> None:
    report = document(_tune(pipeline, str(folder), "--json"))
    assert report["questions"] == 30
    assert (report["verdict"] == "better") == (report["file"] is not None)
    assert {"rrf", "scores", "fusion=rrf", "tuned"} <= {row["name"] for row in report["rows"]}

    recording = record(ASKED, pipeline.resources)
    replayed = OfflineFusion(pipeline.resources.pipeline, recording)
    client = Chorale(pipeline.server.url)
    for name, configuration in pipeline.resources.pipeline.configurations.items():
        rankings = replayed.rankings(configuration)
        for one in ASKED[::6] + ASKED[-2:]:
            answer = client.retrieve(
                one.text, namespace="eval-things", configuration=name, top_k=10, cache="bypass", timeout_s=30
            )
            assert answer.status == "complete"
            assert rankings[one.question_id] == ranked_documents(answer.questions[0]), name


@pytest.mark.slow
def test_wrong_usage_prints_one_sentence_and_no_traceback(pipeline: RunningPipeline, folder: Path) -> None:
    assert "FOLDER or --judgements FILE" in complaint(_tune(pipeline), 2)
    refused = complaint(_tune(pipeline, str(folder), "--name", "rrf"), 2)
    assert "the pipeline has a configuration 'rrf' already" in refused
    assert "Traceback" not in refused
