"""Fine-tunes a reranker on the judged questions of a collection (BEIR layout) that a running Chorale has indexed.

    make torch eval
    .venv/bin/chorale up                                          # in another terminal
    .venv/bin/chorale eval ~/collections/scifact                  # indexes it as eval-scifact
    eval "$(.venv/bin/chorale env)"
    .venv/bin/python examples/reranker/train.py ~/collections/scifact --out ~/models/scifact-reranker

Questions are those of the train split.  Hits that nobody judged relevant are the hard negatives.  The loss is the softmax over one
relevant passage and its negatives (LCE; Gao, Dai and Callan, ECIR 2021) plus the binary cross-entropy of each pair, since the
pipeline blends the sigmoid of a logit.  CrossEncoderTrainer would need two more packages for the same loop, datasets and accelerate.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import torch
from chorale_client import Chorale
from sentence_transformers import CrossEncoder
from sentence_transformers.util import batch_to_device
from torch.nn import functional

CANDIDATES = 100
QUESTIONS_PER_STEP, NEGATIVES = 4, 3
ENCODER_RATE, HEAD_RATE = 2e-4, 2e-3  # peaks of the learning rate; the head may be new


class JudgedQuestion(NamedTuple):
    text: str
    relevant: list[str]
    negatives: list[str]


def judged_questions(folder: Path, split: str, namespace: str) -> list[JudgedQuestion]:
    """The questions with a relevant and another passage among their hits."""
    relevant: dict[str, set[str]] = defaultdict(set)
    with (folder / "qrels" / f"{split}.tsv").open(encoding="utf-8") as rows:
        for question_id, document_id, grade in list(csv.reader(rows, delimiter="\t"))[1:]:
            if int(grade) > 0:
                relevant[question_id].add(document_id)
    questions, chorale = [], Chorale()
    with (folder / "queries.jsonl").open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["_id"] not in relevant:
                continue
            answer = chorale.retrieve(
                row["text"],
                namespace=namespace,
                top_k=CANDIDATES,
                include=["texts", "metadata"],
                rerank="off",
                timeout_s=30,
            )
            if answer.status != "complete":
                raise SystemExit(f"{row['_id']} is {answer.status}: {answer.degraded}")
            passages: tuple[list[str], list[str]] = [], []
            for hit in answer.hits:
                # The pipeline's reranker reads pairs in this form, too.
                is_titled = hit.title and not hit.text.startswith(hit.title)
                text = f"{hit.title}\n{hit.text}" if is_titled else hit.text
                passages[hit.document_id not in relevant[row["_id"]]].append(text)
            if all(passages):
                questions.append(JudgedQuestion(row["text"], *passages))
    return questions


def train(model: CrossEncoder, questions: list[JudgedQuestion], steps: int, seed: int) -> None:
    """Trains the head and the upper half of the encoder: a few hundred questions teach no words."""
    torch.manual_seed(seed)
    chance = random.Random(seed)
    frozen = model.config.num_hidden_layers // 2
    encoder, head = [], []
    for name, weights in model.named_parameters():
        layer = name.partition("encoder.layer.")[2].partition(".")[0]
        weights.requires_grad = "embeddings" not in name and (not layer or int(layer) >= frozen)
        if weights.requires_grad:
            (encoder if layer else head).append(weights)
    optimiser = torch.optim.AdamW([{"params": encoder}, {"params": head}])
    rates = [ENCODER_RATE, HEAD_RATE]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rates, total_steps=steps, pct_start=0.05)
    model.train()
    for step in range(1, steps + 1):
        pairs = []
        for question in chance.sample(questions, min(QUESTIONS_PER_STEP, len(questions))):
            passages = [chance.choice(question.relevant), *chance.choices(question.negatives, k=NEGATIVES)]
            pairs += [(question.text, passage) for passage in passages]
        features = batch_to_device(model.preprocess(pairs), model.device)
        logits = model(features)["scores"].view(-1, 1 + NEGATIVES)
        targets = torch.zeros_like(logits)
        targets[:, 0] = 1
        loss = functional.cross_entropy(logits, targets)
        loss = loss + functional.binary_cross_entropy_with_logits(logits, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
        if step % 25 == 0:
            print(f"step {step} of {steps}, loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("folder", type=Path, help="the collection: queries.jsonl and qrels/<split>.tsv")
    parser.add_argument("--out", type=Path, required=True, help="folder for the model")
    parser.add_argument("--split", default="train")
    parser.add_argument("--namespace", help="default: eval-<folder>, where `chorale eval` puts a collection")
    parser.add_argument("--base", default="sentence-transformers/all-MiniLM-L6-v2", help="name or folder")
    parser.add_argument("--steps", type=int, default=400, help="of 16 pairs each")
    parser.add_argument("--max-pieces", type=int, default=128, help="of question and passage together")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    judged = judged_questions(given.folder, given.split, given.namespace or f"eval-{given.folder.name}")
    print(f"{len(judged)} questions", flush=True)
    cross_encoder = CrossEncoder(given.base, num_labels=1, max_length=given.max_pieces)
    train(cross_encoder, judged, given.steps, given.seed)
    cross_encoder.save_pretrained(str(given.out))
    print(
        f'[rerankers.trained]\nmodel = "{given.out.resolve()}"\nmax_pieces = {given.max_pieces}\nweight = 0.5'
    )
