"""What `autocut` and `context_around` gain, and how often a snippet has the answer, asked through a running pipeline of its own.

`python -m docs.evidence.after_fusion FOLDER [--split train] [--limit 300] [--configuration scores] [--tokens 600]` asks the
questions of a judged collection (BEIR layout) for ten hits each, and cuts these.  Where `metadata.answer` says the answer, it also
looks for the answer's words in contexts of three hits and in the snippet of the right document.  The settings of `chorale` apply.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any

from chorale_client import Chorale
from chorale_client.answer import QuestionAnswer
from chorale_client.request_factory import make_request

from cli.commands.evaluate import index_collection
from cli.local.measured_pipeline import measured_pipeline
from cli.terminal import stderr
from config.settings import load_settings
from evaluation.judged.collection import Collection, read_collection
from models.batching import in_batches
from tasks.wiring.pipeline import load_pipeline

QUESTIONS_A_REQUEST = 8
DEEP = 100
"""The right document is looked for among this many hits."""


def words(text: str) -> str:
    """The words of the text in order, each between spaces."""
    return " ".join(["", *re.findall(r"\w+", text.casefold()), ""])


def answers_to(
    client: Chorale, collection: Collection, ids: list[str], **options: Any
) -> dict[str, QuestionAnswer]:
    answers: dict[str, QuestionAnswer] = {}
    for batch in in_batches(ids, QUESTIONS_A_REQUEST):
        texts = [collection.questions[id_] for id_ in batch]
        request = make_request(
            texts,
            namespace=collection.namespace,
            cache="bypass",
            timeout_s=60.0,
            **({"include": ["ids"]} | options),
        )
        answers |= zip(batch, client.ask(request).questions, strict=True)
    return answers


def cuts(client: Chorale, collection: Collection, ids: list[str], configuration: str) -> None:
    relevant = {id_: {name for name, grade in collection.judgements[id_].items() if grade} for id_ in ids}
    all_found = 0
    for jumps in (None, 1, 2, 3):
        answers = answers_to(client, collection, ids, top_k=10, configuration=configuration, autocut=jumps)
        is_relevant = [(hit.document_id in relevant[id_]) for id_, one in answers.items() for hit in one.hits]
        count = sum(is_relevant)
        all_found = all_found or count
        sys.stdout.write(
            f"autocut {jumps}: {len(is_relevant) / len(ids):.1f} hits, of which {count / len(is_relevant):.3f} are relevant; "
            f"{count / all_found:.3f} of the relevant hits stay\n"
        )


def contexts(
    client: Chorale, collection: Collection, answer_of: dict[str, str], configuration: str, tokens: int
) -> None:
    for around in (0, 1, 2, "document"):
        options: dict[str, Any] = {"context_tokens": tokens, "context_around": around}
        answers = answers_to(
            client, collection, list(answer_of), top_k=3, configuration=configuration, **options
        )
        texts = {id_: one.context.text for id_, one in answers.items() if one.context}
        there = sum(words(answer_of[id_]) in words(text) for id_, text in texts.items())
        used = sum(one.context.tokens for one in answers.values() if one.context) / len(answers)
        sys.stdout.write(
            f"context_around {around}: the answer is in {there / len(answers):.3f} of the contexts, {used:.0f} tokens\n"
        )


def snippets(client: Chorale, collection: Collection, answer_of: dict[str, str], configuration: str) -> None:
    options: dict[str, Any] = {"top_k": DEEP, "depth": DEEP, "include": ["ids", "snippets"]}
    for chars in (240, 440):
        options |= {"configuration": configuration, "snippet_chars": chars}
        whole, parts = list[bool](), list[float]()
        for id_, one in answers_to(client, collection, list(answer_of), **options).items():
            right = [hit.snippet for hit in one.hits if collection.judgements[id_].get(hit.document_id)]
            text = words(right[0].text) if right and right[0] else ""
            answer = words(answer_of[id_])
            whole.append(answer in text)
            parts.append(mean(f" {word} " in text for word in answer.split() or [""]))
        sys.stdout.write(
            f"snippets of {chars} characters: {mean(whole):.3f} have the whole answer, {mean(parts):.3f} of its words\n"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--split", default="train")
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--configuration", default="scores")
    parser.add_argument("--tokens", type=int, default=600)
    given = parser.parse_args()
    collection = read_collection(given.folder, given.split)
    ids = list(islice(collection.questions, given.limit))
    with (given.folder / "queries.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    answers = {row["_id"]: str(row.get("metadata", {}).get("answer") or "") for row in rows}
    answer_of = {id_: answers[id_] for id_ in ids if answers[id_]}
    settings = load_settings()
    pipeline = load_pipeline(settings.pipeline_file)
    with measured_pipeline(settings, pipeline) as measured:
        index_collection(collection, measured.resources, stderr())
        cuts(measured.client, collection, ids, given.configuration)
        if answer_of:
            contexts(measured.client, collection, answer_of, given.configuration, given.tokens)
            snippets(measured.client, collection, answer_of, given.configuration)


if __name__ == "__main__":
    main()
