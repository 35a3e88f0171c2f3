"""A small cross-encoder, trained once a run: MiniLM's encoder with a head, on pairs from the demo's corpus.

A pair is the first sentence of a document of the Python documentation, and the rest of the same document (1) or of
another one (0).  It only tells these pairs apart; published models are far better.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli.demo.python_docs import python_docs
from inference.model_folder.model_files import model_folder

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
MODULES = ("collections", "functools", "json", "os", "pathlib", "random", "shutil", "statistics", "threading")
PIECES = 48
PAIRS = 420
HELD_OUT = 40
"""Documents that are never trained on."""
BATCH = 16
LR, HEAD_LR = 2e-4, 2e-3
"""Learning rates of the encoder, and of the new head."""
FROZEN_LAYERS = 3
"""Frozen layers of the encoder's six: training only the upper layers takes half the time."""

Pair = tuple[str, str]


def documents() -> list[Pair]:
    """Returns (first sentence, rest) of each document that has both, always in the same order."""
    found = []
    for document in python_docs(MODULES):
        first, _, rest = document.text.partition(". ")
        if len(first.split()) >= 5 and len(rest.split()) >= 10:
            found.append((first, rest))
    random.Random(3).shuffle(found)
    return found


def train(folder: Path, pairs: Sequence[Pair]) -> None:
    """Write the folder of a CrossEncoder.  One epoch of at most PAIRS pairs, a third of them matching."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    # A second thread gains little here, and on a busy machine it only spins.
    torch.set_num_threads(1)
    torch.manual_seed(5)
    chance = random.Random(5)
    source = str(model_folder(MODEL))
    tokenizer = AutoTokenizer.from_pretrained(source)
    model: Any = AutoModelForSequenceClassification.from_pretrained(source, num_labels=1, dtype=torch.float32)
    for name, weights in model.named_parameters():
        layer = name.partition("encoder.layer.")[2].partition(".")[0]
        weights.requires_grad = "embeddings" not in name and (not layer or int(layer) >= FROZEN_LAYERS)
    examples: list[tuple[str, str, float]] = []
    while len(examples) < PAIRS:
        first, rest = pairs[len(examples) // 3 % len(pairs)]
        examples += [(first, rest, 1.0)]
        examples += [(first, pairs[chance.randrange(len(pairs))][1], 0.0) for _ in range(2)]
    chance.shuffle(examples)
    fast = [
        weights
        for name, weights in model.named_parameters()
        if "encoder" not in name and weights.requires_grad
    ]
    slow = [
        weights for name, weights in model.named_parameters() if "encoder" in name and weights.requires_grad
    ]
    groups: list[dict[str, Any]] = [{"params": slow}, {"params": fast, "lr": HEAD_LR}]
    steps = -(-len(examples) // BATCH)
    optimiser = torch.optim.AdamW(groups, lr=LR)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1, (step + 1) / 4) * (1 - step / steps)
    )
    model.train()
    for at in range(0, len(examples), BATCH):
        firsts, rests, labels = zip(*examples[at : at + BATCH], strict=True)
        inputs = tokenizer(
            list(firsts), list(rests), truncation=True, max_length=PIECES, padding=True, return_tensors="pt"
        )
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            model(**inputs).logits[:, 0], torch.tensor(labels)
        )
        torch.autograd.backward(loss)
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
    model.eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
