"""How many pairs a cross-encoder of MiniLM's size scores in its budget: `python -m bench.reranking`.

The encoder is all-MiniLM-L6-v2 (six layers, 384 wide) and the head is made up: it ranks at random, in the time that
ms-marco-MiniLM-L6-v2 takes.  Each figure is the best of `--rounds`, since the machine has other work.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from config.declarations import RerankerDeclaration
from inference.onnx_reranker import OnnxReranker
from inference.weights import model_folder

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
DECLARED = RerankerDeclaration(name="bench", model=MODEL)
PIECES = (32, 64, 96, 128, 256)
THREADS = (1, 2)


def write_cross_encoder(folder: Path) -> Path:
    source = model_folder(MODEL)
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(source / name, folder / name)
    config = json.loads((source / "config.json").read_text("utf-8"))
    config |= {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}}
    (folder / "config.json").write_text(json.dumps(config))
    chance, width = np.random.default_rng(0), int(config["hidden_size"])
    head = {
        "bert.pooler.dense.weight": chance.normal(0, 0.05, (width, width)),
        "bert.pooler.dense.bias": np.zeros(width),
        "classifier.weight": chance.normal(0, 0.1, (1, width)),
        "classifier.bias": np.zeros(1),
    }
    encoder = load_file(source / "model.safetensors")
    weights = {f"bert.{name.removeprefix('bert.')}": value for name, value in encoder.items()}
    weights |= {name: value.astype(np.float32) for name, value in head.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.reranking", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    depth, limit_s = DECLARED.depth, DECLARED.budget_ms / 1000
    print(f"{'threads':>8}{'pieces':>8}{f'{depth} pairs, ms':>16}{f'of them in {DECLARED.budget_ms} ms':>22}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_cross_encoder(Path(temporary) / "model")
        for threads in THREADS:
            for pieces in PIECES:
                reranker = OnnxReranker(str(folder), threads=threads, max_pieces=pieces)
                reranker.warm()
                pairs = [("when is the deposit returned", "word " * pieces)] * depth
                took_s = []
                for _ in range(rounds):
                    begun_s = time.monotonic()
                    reranker.score(pairs, limit_s=60)
                    took_s.append(time.monotonic() - begun_s)
                chosen = max(reranker.score(pairs, limit_s=limit_s).chosen for _ in range(rounds))
                print(f"{threads:>8}{pieces:>8}{min(took_s) * 1000:>16.0f}{chosen:>22}", flush=True)


if __name__ == "__main__":
    main()
