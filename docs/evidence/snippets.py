"""How often do the words of the answer stand in the snippet of the right document?

`python -m docs.evidence.snippets FOLDER [--skip N] [--limit N] [--chars N]` asks questions of a judged collection (BEIR layout), whose
`metadata.answer` says the answer, through a running pipeline of its own.  The settings of `chorale` apply.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import mean

from chorale_client import Chorale
from chorale_client.request_factory import make_request

from cli.commands.evaluate import index_collection
from cli.local.measured_pipeline import measured_pipeline
from cli.terminal import stderr
from config.settings import load_settings
from evaluation.collection import Collection, read_collection
from models.batching import in_batches
from tasks.wiring.pipeline import load_pipeline

QUESTIONS_A_REQUEST, TOP_K = 8, 100


def words(text: str) -> str:
    """The words of the text in order, each between spaces."""
    return " ".join(["", *re.findall(r"\w+", text.casefold()), ""])


def answers_of(folder: Path) -> dict[str, str]:
    with (folder / "queries.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return {row["_id"]: row["metadata"]["answer"] for row in rows}


def snippets(
    client: Chorale, collection: Collection, ids: list[str], chars: int
) -> Iterator[tuple[str, str]]:
    """(Question id, snippet of its right document) of every question that found the document."""
    for batch in in_batches(ids, QUESTIONS_A_REQUEST):
        texts = [collection.questions[id_] for id_ in batch]
        asked = make_request(
            texts,
            namespace=collection.namespace,
            top_k=TOP_K,
            depth=TOP_K,
            include=["ids", "snippets"],
            snippet_chars=chars,
            cache="bypass",
            timeout_s=60.0,
        )
        for id_, question in zip(batch, client.ask(asked).questions, strict=True):
            right = collection.judgements[id_]
            shown = [hit.snippet for hit in question.hits if right.get(hit.document_id)]
            if shown and shown[0]:
                yield id_, shown[0].text


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--limit", type=int, default=500)
    parser.add_argument("--chars", type=int, default=240)
    given = parser.parse_args()
    collection, answers = read_collection(given.folder, "test"), answers_of(given.folder)
    ids = list(islice(collection.questions, given.skip, given.skip + given.limit))
    settings = load_settings()
    pipeline = load_pipeline(settings.pipeline_file)
    with measured_pipeline(settings, pipeline) as measured:
        index_collection(collection, measured.resources, stderr())
        shown = dict(snippets(measured.client, collection, ids, given.chars))
    whole = [words(answers[id_]) in words(text) for id_, text in shown.items()]
    parts = [
        mean(f" {word} " in words(text) for word in words(answers[id_]).split() or [""])
        for id_, text in shown.items()
    ]
    sys.stdout.write(
        f"{len(ids)} questions, {len(shown)} right documents found, {mean(map(len, shown.values())):.0f} characters\n"
        f"the whole answer in the snippet: {sum(whole) / len(ids):.3f} of all questions, {mean(whole):.3f} of those found\n"
        f"the answer's words, one by one: {sum(parts) / len(ids):.3f} of all questions, {mean(parts):.3f} of those found\n"
    )


if __name__ == "__main__":
    main()
