"""Fine-tunes a reranker on the judged questions of a collection (BEIR layout) that a running Chorale has indexed.
docs/guides/reranking.md has the commands.

Questions are those of the train split.  Hits that nobody judged relevant are the hard negatives.  The loss is the softmax over one
relevant passage and its negatives (LCE; Gao, Dai and Callan, ECIR 2021) plus the binary cross-entropy of each pair, since the
pipeline blends the sigmoid of a logit.  CrossEncoderTrainer would need two more packages for the same loop, datasets and accelerate.
A model of fewer layers also learns the logits of the whole model, by their squared error.
"""

import random
from pathlib import Path
from typing import Annotated, NamedTuple

import torch
import typer
from chorale_client import Chorale
from sentence_transformers import CrossEncoder
from sentence_transformers.util import batch_to_device
from torch.nn import functional

from evaluation.judged.collection import read_collection
from inference.model_files import model_folder
from inference.pair_reranker import check_classifier
from inference.sentence_model import read_sentence_model

QUESTIONS_PER_STEP, NEGATIVES = 4, 3
ENCODER_RATE, HEAD_RATE = 2e-4, 2e-3  # peaks of the learning rate; the head may be new


class JudgedQuestion(NamedTuple):
    text: str
    relevant: list[str]
    negatives: list[str]


def judged_questions(folder: Path) -> list[JudgedQuestion]:
    """The questions with a relevant and another passage among their first 100 hits."""
    collection, chorale, questions = read_collection(folder, "train"), Chorale(), []
    parts = {"namespace": collection.namespace, "include": ["texts", "metadata"], "rerank": "off"}
    for question_id, text in collection.questions.items():
        answer = chorale.retrieve(text, top_k=100, timeout_s=30, **parts)
        if answer.status != "complete":
            raise SystemExit(f"{question_id} is {answer.status}: {answer.degraded}")
        question = JudgedQuestion(text, [], [])
        for hit in answer.hits:
            # The pipeline's reranker reads pairs in this form, too.
            is_titled = hit.title and not hit.text.startswith(hit.title)
            is_relevant = collection.judgements[question_id].get(hit.document_id, 0) > 0
            passages = question.relevant if is_relevant else question.negatives
            passages.append(f"{hit.title}\n{hit.text}" if is_titled else hit.text)
        if question.relevant and question.negatives:
            questions.append(question)
    return questions


def shorten(model: CrossEncoder, layers: int) -> None:
    """Keeps at most so many of the encoder's layers, at equal distances, with the last one."""
    encoder, there = model.model.base_model.encoder, model.config.num_hidden_layers
    layers = min(layers, there)
    layer_places = [(place + 1) * there // layers - 1 for place in range(layers)]
    encoder.layer = torch.nn.ModuleList(encoder.layer[at] for at in layer_places)
    model.config.num_hidden_layers = layers


def train(
    model: CrossEncoder, questions: list[JudgedQuestion], steps: int, seed: int, teacher: CrossEncoder | None
) -> None:
    """Trains the head and the upper half of the encoder: a few hundred questions teach no words.  With a teacher it trains
    all layers, since each has another one below it than before."""
    lowest = 0 if teacher else model.config.num_hidden_layers // 2
    torch.manual_seed(seed)
    chance = random.Random(seed)
    groups: dict[float, list[torch.nn.Parameter]] = {ENCODER_RATE: [], HEAD_RATE: []}
    for name, weights in model.named_parameters():
        layer = name.partition("encoder.layer.")[2].partition(".")[0]
        is_upper = not layer or int(layer) >= lowest
        weights.requires_grad = is_upper and "embeddings" not in name
        if weights.requires_grad:
            groups[ENCODER_RATE if layer else HEAD_RATE].append(weights)
    optimiser = torch.optim.AdamW([{"params": group} for group in groups.values()])
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, list(groups), total_steps=steps, pct_start=0.05)
    model.train()
    for step in range(1, steps + 1):
        pairs = []
        for question in chance.sample(questions, min(QUESTIONS_PER_STEP, len(questions))):
            passages = [chance.choice(question.relevant), *chance.choices(question.negatives, k=NEGATIVES)]
            pairs += [(question.text, passage) for passage in passages]
        logits = model(batch_to_device(model.preprocess(pairs), model.device))["scores"].view(
            -1, 1 + NEGATIVES
        )
        targets = torch.zeros_like(logits)
        targets[:, 0] = 1
        loss = functional.cross_entropy(logits, targets)
        loss = loss + functional.binary_cross_entropy_with_logits(logits, targets)
        if teacher:
            with torch.no_grad():
                taught = teacher(batch_to_device(teacher.preprocess(pairs), teacher.device))["scores"]
            loss = loss + functional.mse_loss(logits, taught.view_as(logits))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
        if step % 25 == 0:
            print(f"step {step} of {steps}, loss {loss.item():.3f}", flush=True)


def main(
    folder: Annotated[Path, typer.Argument(help="The collection: queries.jsonl and qrels/train.tsv.")],
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    base: Annotated[str, typer.Option(help="Name or folder.")] = "sentence-transformers/all-MiniLM-L6-v2",
    steps: Annotated[int, typer.Option(help="Of 16 pairs each.")] = 400,
    max_pieces: Annotated[int, typer.Option(help="Of question and passage together.")] = 128,
    layers: Annotated[
        int | None,
        typer.Option(min=1, help="Distil --base, a cross-encoder, into at most so many of its layers."),
    ] = None,
    seed: int = 1,
) -> None:
    if layers:
        check_classifier(read_sentence_model(model_folder(base)))  # a new head would teach nothing
    questions = judged_questions(folder)
    print(f"{len(questions)} questions", flush=True)
    model = CrossEncoder(base, num_labels=1, max_length=max_pieces)
    if layers:
        shorten(model, layers)
    train(model, questions, steps, seed, CrossEncoder(base) if layers else None)
    model.save_pretrained(str(out))
    print(
        f'[rerankers.trained]\nmodel = "{out.resolve()}"\nmax_pieces = {max_pieces}\ndepth = 16\nweight = 0.1'
    )


if __name__ == "__main__":
    typer.run(main)
