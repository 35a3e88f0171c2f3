"""Fits the confidence of answers for the models of a running Chorale, on judged collections (BEIR layout).

    make eval
    export PATH=$PWD/.venv/bin:$PATH
    chorale up                                                    # in another terminal
    chorale eval ~/c/rag; chorale eval ~/c/law --split dev; chorale eval ~/c/scifact    # each indexes its collection
    eval "$(chorale env)"
    python examples/confidence/train.py ~/c/rag:test ~/c/law:dev --check ~/c/scifact:test --out confidence.json

Each collection is asked its own questions, and as many of the others, which nothing in it answers.  The confidence is the product
of two logistic models: P(the corpus is about the question), and P(a relevant document is among the first `top_k` | it is about it).
No signal lowers either.  The printed calibration error (Naeini, Cooper and Hauskrecht, AAAI 2015) should be below .05.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
from collections import defaultdict
from itertools import chain, islice, zip_longest
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from chorale_client import Chorale
from numpy.typing import NDArray
from scipy.optimize import minimize

Values = NDArray[np.float64]
TOPS = (1, 2, 3, 5, 10, 20, 50, 100)  # every answer is judged at each of these `top_k`
SETS = (
    ("reranker", ("rerank", "rerank_gap", "agreement")),
    ("reranker", ("rerank", "rerank_gap")),
    ("embedder", ("cosine", "agreement")),
    ("embedder", ("cosine",)),
)  # the model whose scores the signals are, and the signals


class Collection(NamedTuple):
    namespace: str
    questions: dict[str, str]
    relevant: dict[str, set[str]]


class Judged(NamedTuple):
    signals: dict[str, float]
    rank: float  # of the first relevant document; infinite if there is none
    weight: float


def read(argument: str, limit: int | None) -> Collection:
    name, _, split = argument.partition(":")
    folder, relevant = Path(name), defaultdict(set)
    with (folder / "qrels" / f"{split or 'train'}.tsv").open(encoding="utf-8") as rows:
        for question_id, document_id, grade in list(csv.reader(rows, delimiter="\t"))[1:]:
            if int(grade) > 0:
                relevant[question_id].add(document_id)
    with (folder / "queries.jsonl").open(encoding="utf-8") as lines:
        texts = {row["_id"]: row["text"] for row in map(json.loads, lines) if row["_id"] in relevant}
    step = max(1, len(texts) // (limit or len(texts)))  # neighbours are often about one document
    return Collection(f"eval-{folder.name}", dict(islice(texts.items(), 0, None, step)), relevant)


def judge(collection: Collection, others: list[Collection], chorale: Chorale) -> tuple[list[Judged], str]:
    """The answers to own and foreign questions; the halves weigh the same.  Also the id of a request."""
    texts = zip_longest(*(other.questions.values() for other in others if other is not collection))
    foreign = list(islice(filter(None, chain.from_iterable(texts)), len(collection.questions)))
    questions: list[tuple[str, str]] = [*collection.questions.items(), *(("", text) for text in foreign)]
    answers, request_id = [], ""
    for start in range(0, len(questions), 16):
        portion = questions[start : start + 16]
        answer = chorale.retrieve(
            [text for _, text in portion],
            namespace=collection.namespace,
            depth=max(TOPS),
            top_k=max(TOPS),
            include=["ids", "explanation"],
            boosts="off",
            cache="bypass",
            timeout_s=60,
        )
        if answer.status != "complete":
            raise SystemExit(f"{answer.request_id} is {answer.status}: {answer.degraded}")
        request_id = answer.request_id
        for (question_id, _), question in zip(portion, answer.questions, strict=True):
            relevant = collection.relevant.get(question_id, set())
            ranks = (hit.rank for hit in question.hits if hit.document_id in relevant)
            weight = 0.5 / len(collection.questions if question_id else foreign)
            answers.append(Judged(question.signals, next(ranks, inf), weight))
    return answers, request_id


def columns(answers: list[Judged], signals: tuple[str, ...]) -> tuple[Values, Values, Values]:
    """For each answer and each of TOPS: constant, signals and ln(top); whether it has a relevant document; its weight."""
    pairs = [(answer, top) for answer in answers for top in TOPS]
    terms = [[1.0, *(answer.signals[name] for name in signals), np.log(top)] for answer, top in pairs]
    hits = [float(answer.rank <= top) for answer, top in pairs]
    return np.array(terms), np.array(hits), np.array([answer.weight for answer, _ in pairs])


def shares(factors: Values, terms: Values) -> tuple[Values, Values]:
    """The two probabilities; the first model does not know the `top_k`."""
    width = terms.shape[1] - 1
    return tuple(
        1 / (1 + np.exp(-np.clip(part @ own, -500, 500)))
        for part, own in ((terms[:, :width], factors[:width]), (terms, factors[width:]))
    )  # type: ignore[return-value]


def fit(terms: Values, hits: Values, weights: Values) -> Values:
    """Maximum likelihood, with a small penalty that keeps the factors finite."""
    width, weights = terms.shape[1] - 1, weights / weights.sum()

    def loss(factors: Values) -> tuple[float, Values]:
        is_about, is_there = shares(factors, terms)
        both = np.clip(is_about * is_there, 1e-6, 1 - 1e-6)
        missed = -(weights * (hits * np.log(both) + (1 - hits) * np.log(1 - both))).sum()
        slope = weights * (both - hits) / (1 - both)
        slopes = [terms[:, :width].T @ (slope * (1 - is_about)), terms.T @ (slope * (1 - is_there))]
        return float(missed + 1e-5 * factors @ factors), np.concatenate(slopes) + 2e-5 * factors

    start, lowest = np.ones(2 * width + 1), [0.0] * (2 * width + 1)
    start[[0, width]], lowest[0], lowest[width] = (-5, 0), -inf, -inf  # the constants are free
    factors: Values = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=[(least, None) for least in lowest]
    ).x
    return factors


def calibration_error(promised: Values, hits: Values, weights: Values) -> float:
    """Over ten bins: Σ share of the answers × |mean probability - share with a relevant document|."""
    bins = np.minimum((promised * 10).astype(int), 9)
    parts = (abs((weights * (promised - hits))[bins == place].sum()) for place in range(10))
    return float(sum(parts) / weights.sum())


def main(folders: list[str], check: list[str], out: Path, limit: int | None) -> None:
    learned, others = ([read(name, limit) for name in names] for names in (folders, check))
    chorale = Chorale()
    judged = {each.namespace: judge(each, learned, chorale) for each in (*learned, *others)}
    answers = [answer for each in learned for answer in judged[each.namespace][0]]
    show = ["chorale", "audit", "show", judged[learned[0].namespace][1], "--json"]
    models = json.loads(subprocess.run(show, check=True, capture_output=True).stdout)["request"]["models"]
    fitted: list[dict[str, Any]] = []
    figures: list[dict[str, Any]] = []
    for role, signals in SETS:
        if role not in models or not all(answer.signals.keys() >= set(signals) for answer in answers):
            continue
        factors = fit(*columns(answers, signals)).round(4).tolist()
        terms = ["constant", *signals]
        about, hit_there = factors[: len(terms)], factors[len(terms) :]
        fitted.append(
            {
                "signals": signals,
                "role": role,
                "fingerprints": [models[role]],
                "about": dict(zip(terms, about, strict=True)),
                "found": dict(zip([*terms, "log_top"], hit_there, strict=True)),
            }
        )
        checks = []
        for each in others:
            table, hits, weights = columns(judged[each.namespace][0], signals)
            is_about, is_there = shares(np.array(factors), table)
            error = round(calibration_error(is_about * is_there, hits, weights), 4)
            checks.append({"collection": each.namespace, "calibration_error": error})
            print(f"{' '.join(signals)}, {each.namespace}: calibration error {error:.3f}")
        figures.append({"signals": signals, "checks": checks})
    how = f"examples/confidence/train.py {' '.join(Path(name).name for name in folders)}"
    out.write_text(json.dumps({"how": how, "figures": figures, "models": fitted}, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="+", help="two or more collections, FOLDER:SPLIT")
    parser.add_argument("--check", action="append", required=True, help="another one, to check the result on")
    parser.add_argument("--out", type=Path, required=True, help="CHORALE_CONFIDENCE_FILE names it then")
    parser.add_argument("--limit", type=int, help="ask only about so many questions of each")
    main(**vars(parser.parse_args()))
