"""`chorale eval`: how good the rankings are on a judged collection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bench.evaluation import Evaluation

DEGRADED_EXIT_CODE = 3


def evaluate(
    folder: Annotated[
        Path,
        typer.Argument(help="A collection in the BEIR layout: corpus.jsonl, queries.jsonl, qrels/."),
    ],
    split: Annotated[str, typer.Option(help="Which judgements: `qrels/<split>.tsv`.")] = "test",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Ask the first so many judged questions only.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Index a judged collection and measure every branch and configuration on its questions.

    The questions go through the running pipeline, or through one that is started for the time. The corpus
    stays in a namespace of its own (`eval-<folder>`), so that the next run embeds only what changed. Exit
    code 3 if an answer was degraded: then the figures are too low.

    Examples:

        chorale eval ~/collections/scifact

        chorale eval ~/collections/scifact --split train --limit 200 --json
    """
    from bench.collection import read_collection
    from bench.corpus import namespace_of
    from chorale_client.client import Chorale
    from cli.installation import installation
    from config.pipeline import load_pipeline
    from config.settings import load_settings
    from rich.console import Console

    collection = read_collection(folder, split).limited(limit)
    settings = load_settings()
    pipeline = load_pipeline(settings.pipeline_file)
    console = Console(stderr=True)

    def say(name: str, line: bytes) -> None:
        console.print(f"{name} | {line.decode(errors='replace')}", markup=False, highlight=False)

    with installation(settings, pipeline, say) as resources:
        namespace = namespace_of(collection.name)
        documents = _index(collection.corpus, namespace, resources, console)
        client = Chorale(resources.redis_url, broker_url=settings.broker_url)
        found = _ask(collection, pipeline, namespace, documents, client, console)
    if as_json:
        print(json.dumps(found.to_wire()))
    else:
        _show(found)
    if found.faults:
        console.print(f"{sum(found.faults.values())} answers were not whole; the figures are too low:")
        for why, count in found.faults.items():
            console.print(f"  {why}: {count}", markup=False)
        raise typer.Exit(DEGRADED_EXIT_CODE)
