"""`chorale eval`: how good the rankings are on a judged collection."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from models.errors import ServiceError

if TYPE_CHECKING:
    from chorale_client import Chorale
    from rich.console import Console

    from bench.collection import Collection
    from bench.evaluation import Evaluation
    from tasks.resources import Resources

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
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document and nothing else.")
    ] = False,
) -> None:
    """Index a judged collection and measure every branch and configuration on its questions.

    The questions go through the running pipeline, or through one that is started for the time. The corpus
    stays in a namespace of its own (`eval-<folder>`), so that the next run embeds only what changed. Exit
    code 3 if an answer was degraded: then the figures are too low.

    Examples:

        chorale eval ~/collections/scifact

        chorale eval ~/collections/scifact --split train --limit 200 --json
    """
    from chorale_client import Chorale
    from rich.console import Console

    from bench.collection import read_collection
    from bench.corpus import namespace_of
    from cli.installation import LastLines, installation
    from config.pipeline import load_pipeline
    from config.settings import load_settings

    collection = read_collection(folder, split).limited(limit)
    settings = load_settings()
    pipeline = load_pipeline(settings.pipeline_file)
    console = Console(stderr=True)

    lines = LastLines()
    try:
        with installation(settings, pipeline, lines) as resources:
            namespace = namespace_of(collection.name)
            documents = _index(collection, namespace, resources, console)
            client = Chorale(resources.redis_url, broker_url=settings.broker_url)
            found = _ask(collection, resources, client, namespace, documents, console)
    except ServiceError:
        lines.show(sys.stderr)
        raise
    if as_json:
        print(json.dumps(found.to_wire()))
    else:
        _show(found)
    if found.faults:
        console.print(f"{sum(found.faults.values())} answers were not whole; the figures are too low:")
        for why, count in found.faults.items():
            console.print(f"  {why}: {count}", markup=False)
        lines.show(sys.stderr)
        raise typer.Exit(DEGRADED_EXIT_CODE)


def _index(collection: Collection, namespace: str, resources: Resources, console: Console) -> int:
    """Returns how many documents there are."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from bench.corpus import index_corpus
    from ingest.read import read_documents

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    total = collection.count_documents()
    with Progress(*columns, TextColumn("{task.fields[rate]}"), console=console) as shown:
        task = shown.add_task("indexing", total=total, rate="")
        report = index_corpus(
            read_documents([collection.corpus], source=collection.name, ids="given"),
            resources=resources,
            namespace=namespace,
            source=collection.name,
            total_documents=total,
            progress=lambda so_far: shown.update(
                task, completed=so_far.documents, note=f"{so_far.passages_per_s:.0f} passages/s"
            ),
        )
    resources.publish_generation(namespace, report.generation)
    for skipped in report.skipped:
        console.print(str(skipped), markup=False, highlight=False)
    return report.added + report.replaced + report.unchanged


def _ask(
    collection: Collection,
    resources: Resources,
    client: Chorale,
    namespace: str,
    documents: int,
    console: Console,
) -> Evaluation:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from bench.evaluation import evaluate as ask_all
    from bench.evaluation import runs_of

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    runs = runs_of(resources.pipeline)
    with Progress(*columns, console=console) as shown:
        bars = {run.name: shown.add_task(run.name, total=len(collection.questions)) for run in runs}
        return ask_all(
            collection,
            runs=runs,
            namespace=namespace,
            documents=documents,
            ask=client.ask,
            progress=lambda run, questions: shown.advance(bars[run], questions),
        )


def _bars(console: Console) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, TextColumn("{task.fields[note]}"), console=console)


def _show(found: Evaluation) -> None:
    from rich.console import Console
    from rich.table import Table

    from bench.metrics import MEASURES

    title = f"{found.collection}: {found.documents:,} documents, {found.questions:,} judged questions"
    table = Table("run", title=title)
    for name in MEASURES:
        table.add_column(name, justify="right")
    for name, figures in found.figures.items():
        table.add_row(name, *(f"{figures[measure]:.4f}" for measure in MEASURES))
    Console().print(table)
