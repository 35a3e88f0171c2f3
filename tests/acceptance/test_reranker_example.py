"""examples/reranker: a training on the hits of a running pipeline leaves a folder that the pipeline loads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from inference.backends import load_reranker
from inference.protocol import Reranker
from tests.support.models.tiny_bert import write_tiny_bert
from tests.support.models.tiny_cross_encoder import write_tiny_cross_encoder
from tests.support.pipelines.pipeline import ROOT, RunningPipeline
from tests.support.servers.services import need
from tests.support.wheels import outside

QUESTIONS = {"repairs": "Who pays for repairs?", "bread": "What is bread made of?", "deposit": "Deposits?"}
"""Texts by the document that answers."""


def _logits(folder: Path) -> tuple[float | None, ...]:
    reranker: Reranker = load_reranker(str(folder), backend="onnx", threads=1, max_pieces=24)
    reranker.warm()
    return reranker.score([("a question", "words of a tree"), ("a date", "text")], limit_s=20).logits


TRAININGS = """
import json, sys
import typer
from examples.reranker.train import main

app = typer.Typer()
app.command()(main)
for arguments in json.loads(sys.argv[1]):
    try:
        app(arguments, standalone_mode=False)
    except Exception as error:
        print(error)
"""
"""A program that calls the example with each of its lists of arguments: PyTorch takes seconds to import."""


def _trained(pipeline: RunningPipeline, folder: Path, *trainings: dict[str, object]) -> str:
    """What the trainings print, one after another."""
    calls = [
        [str(folder), *(f"--{name}={value}" for name, value in {"steps": 3, "max-pieces": 24, **one}.items())]
        for one in trainings
    ]
    done = subprocess.run(
        [sys.executable, "-c", TRAININGS, json.dumps(calls)],
        cwd=ROOT,
        env=outside(CHORALE_REDIS_URL=pipeline.server.tcp_url, HF_HUB_OFFLINE="1"),
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.limit_s(300)
@pytest.mark.long
def test_a_few_steps_leave_another_model_that_the_pipeline_loads_whole_and_distilled_into_fewer_layers(
    pipeline: RunningPipeline, tmp_path: Path
) -> None:
    need("torch", "`make torch` installs it")
    base, out, folder = write_tiny_cross_encoder(tmp_path / "base"), tmp_path / "out", tmp_path / "judged"
    distilled, encoder = tmp_path / "distilled", tmp_path / "encoder"
    encoder.mkdir()
    write_tiny_bert(encoder)
    pipeline.index(namespace="eval-judged")
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").touch()
    judgements = [f"q-{document}\t{document}\t1" for document in QUESTIONS]
    (folder / "qrels" / "train.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judgements]))
    queries = [json.dumps({"_id": f"q-{document}", "text": text}) for document, text in QUESTIONS.items()]
    (folder / "queries.jsonl").write_text("\n".join([*queries, '{"_id": "unjudged", "text": "?"}']))

    printed = _trained(
        pipeline,
        folder,
        {"base": base, "out": out},
        {"base": out, "out": distilled, "layers": 1},
        {"base": encoder, "out": tmp_path / "none", "layers": 1},
    )
    assert printed.startswith("3 questions\n")
    assert f'[rerankers.trained]\nmodel = "{out}"\n' in printed
    logits = _logits(out)
    assert None not in logits
    assert logits != _logits(base)

    config = json.loads((distilled / "config.json").read_text())
    assert config["num_hidden_layers"] == 1
    assert not {logits, (None, None)} & {_logits(distilled)}
    assert "not a reranker" in printed.partition(f'model = "{distilled}"')[2]
