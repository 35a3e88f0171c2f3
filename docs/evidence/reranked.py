"""How long a whole request with a reranker takes: `python -m docs.evidence.reranked [QUESTIONS [DOCUMENTS [RERANKER...]]]`.

The rerankers have MiniLM's width and its six layers, or three (`int8-3`) or two: the default encoder's under a head that nobody
trained, since weights do not change the time.
The questions come one after another, in turns by each reranker.  Prints for each the times of a request and the pairs scored.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from safetensors.numpy import load_file, save_file

from config.settings import load_settings
from inference.model_files import model_folder
from tasks.registration import make_app
from tests.bench.installation import NAMESPACE, measured_installation
from tests.bench.latency import wait_for_audit
from tests.bench.no_op import PIPELINE_FILE
from tests.bench.timing import Variant, compare
from tests.bench.variants import BESIDE_WORKERS, TIMEOUT_S, ChordPath

DOCUMENTS, QUESTIONS = 300, 100
WITHOUT = "rrf"
RERANKERS = {
    f"{name}-{budget_ms}": f"""
[rerankers.{name}-{budget_ms}]
model = "{{folder}}/{layers}"
precision = "{precision}"
max_pieces = {pieces}
budget_ms = {budget_ms}
[configurations.{name}-{budget_ms}]
method = "rrf"
branches = ["bm25", "vector", "hyde"]
reranker = "{name}-{budget_ms}"
"""
    for name, layers, precision, pieces in (
        ("fp32", 6, "fp32", 128),
        ("int8", 6, "int8", 128),
        ("int8-3", 3, "int8", 64),
        ("int8-2", 2, "int8", 64),
    )
    for budget_ms in (150, 400)
}
LAYERS = (6, 3, 2)


def write_cross_encoder(folder: Path, layers: int) -> Path:
    """The first layers of the default encoder as a cross-encoder with one score."""
    folder.mkdir()
    encoder = model_folder(load_settings().embedder, is_local=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(encoder / name, folder)
    config = json.loads((encoder / "config.json").read_text())
    head = {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}}
    (folder / "config.json").write_text(json.dumps({**config, **head, "num_hidden_layers": layers}))
    weights = {f"bert.{name}": value for name, value in load_file(encoder / "model.safetensors").items()}
    scores = np.random.default_rng(1).normal(0, 0.1, (1, config["hidden_size"])).astype(np.float32)
    weights |= {"classifier.weight": scores, "classifier.bias": np.zeros(1, np.float32)}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def main(questions: int, documents: int, *names: str) -> None:
    chosen = names or tuple(RERANKERS)
    scored: defaultdict[str, list[int]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="chorale-reranked-") as name:
        folder = Path(name)
        pipeline = folder / "pipeline.toml"
        rerankers = "".join(RERANKERS[name] for name in chosen).format(folder=folder)
        for layers in LAYERS:
            if f"{folder}/{layers}" in rerankers:
                write_cross_encoder(folder / str(layers), layers)
        pipeline.write_text(PIPELINE_FILE.read_text() + rerankers)
        with measured_installation(documents, pipeline) as measured:
            resources = measured.resources
            app = make_app(resources)
            options = {"namespace": NAMESPACE, "timeout_s": TIMEOUT_S, "cache": "bypass"}

            def variant(configuration: str) -> Variant:
                path = ChordPath(app, resources, {**options, "configuration": configuration})

                def ask(text: str) -> None:
                    # Each configuration has texts of its own, so that no worker knows their vectors.
                    answer = path.ask(f"{text} {configuration}")
                    scored[configuration] += [
                        line.n_out or 0 for line in answer.stages if line.stage == "rerank"
                    ]

                settle = partial(wait_for_audit, resources.redis)
                return Variant(configuration, ask, (*measured.layout, *BESIDE_WORKERS), settle=settle)

            runs = compare(
                [variant(name) for name in (WITHOUT, *chosen)],
                measured.questions(questions, [1])[0],
                run_only=measured.installation.run_only,
                progress=measured.progress,
            )
    for run in runs:
        pairs = f"{median(scored[run['name']]):.0f}" if scored[run["name"]] else "no"
        cpu_ms = sum(run["cpu_ms"].values())
        sys.stdout.write(
            f"{run['name']}: p50 {run['p50_ms']} ms, p95 {run['p95_ms']} ms, {cpu_ms:.0f} ms of processor time, "
            f"{pairs} pairs, {run['hung']} not complete\n"
        )


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:3]]
    questions, documents = numbers + [QUESTIONS, DOCUMENTS][len(numbers) :]
    main(questions, documents, *sys.argv[3:])
