"""examples/confidence: factors are fitted on two indexed collections and checked on a third, and the service reads them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.wiring.pipeline import read_fitted
from tests.support.pipelines.pipeline import ROOT, RunningPipeline
from tests.support.wheels import outside

EXAMPLE = ROOT / "examples" / "confidence" / "train.py"
TOPICS = {
    "kitchen": "bread soup rice cheese tea cake salad butter honey pasta",
    "garage": "engine tyre brake clutch battery mirror gearbox exhaust wiper horn",
    "garden": "rose tulip hedge lawn apple pear tomato bean fence pond",
}


def collection(folder: Path, name: str, pipeline: RunningPipeline) -> str:
    """A document for each thing, which is indexed, and a question for each document."""
    things = TOPICS[name].split()
    texts = {thing: f"The {thing} in the {name} is looked after every {len(thing)} days." for thing in things}
    pipeline.index({thing: ("", text) for thing, text in texts.items()}, namespace=f"eval-{name}")
    (folder / name / "qrels").mkdir(parents=True)
    questions = [{"_id": f"q-{thing}", "text": f"how often is the {thing} looked after?"} for thing in things]
    (folder / name / "queries.jsonl").write_text("\n".join(map(json.dumps, questions)))
    judged = ["query-id\tcorpus-id\tscore", *(f"q-{thing}\t{thing}\t1" for thing in things)]
    (folder / name / "qrels" / "dev.tsv").write_text("\n".join(judged))
    return f"{folder / name}:dev"


@pytest.mark.long
def test_the_example_writes_factors_that_the_service_reads(pipeline: RunningPipeline, tmp_path: Path) -> None:
    kitchen, garage, garden = (collection(tmp_path, name, pipeline) for name in TOPICS)
    out = tmp_path / "confidence.json"
    environment = {
        **pipeline.environment,
        "CHORALE_REDIS_URL": pipeline.server.tcp_url,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    done = subprocess.run(
        [sys.executable, "-I", EXAMPLE, kitchen, garage, "--check", garden, "--out", out],
        env=outside(**environment),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    names = [line.partition(":")[0] for line in done.stdout.splitlines()]
    assert names == ["cosine agreement, eval-garden", "cosine, eval-garden"]
    own, *_, shipped = read_fitted(out), *read_fitted(None)
    assert own[0].fingerprints == shipped.fingerprints[:1]  # the second is that of the int8 weights
    assert own[0].about["cosine"] + own[0].found["cosine"] > 0


@pytest.fixture(scope="module")
def example() -> Any:
    spec = spec_from_file_location("confidence_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_factors_that_made_the_data_are_found(example: Any) -> None:
    """The shares of many answers that came true take the place of the answers themselves."""
    random = np.random.default_rng(1)
    terms = np.column_stack([np.ones(400), random.random(400) * 2, random.random(400) * 4])
    factors = np.array([-3.0, 4.0, -1.0, 0.0, 0.8])
    is_about, is_there = example.shares(factors, terms)
    assert example.fit(terms, is_about * is_there, np.ones(400)) == pytest.approx(factors, abs=0.2)


def test_the_calibration_error_by_hand(example: Any) -> None:
    promised, hits = np.array([0.05, 0.15, 0.15, 1.0]), np.array([0.0, 1.0, 0.0, 1.0])
    expected = 0.25 * 0.05 + 0.5 * 0.35
    assert example.calibration_error(promised, hits, np.ones(4)) == pytest.approx(expected)
