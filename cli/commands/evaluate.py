"""`chorale eval`: measures how good the rankings are on a judged collection."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import AsJson

if TYPE_CHECKING:
    from chorale_client import Chorale
    from rich.console import Console

    from assembly.resources import Resources
    from bench.collection import Collection
    from bench.evaluation import Evaluation


def evaluate(
    folder: Annotated[
        Path,
        typer.Argument(help="A collection in the BEIR layout: corpus.jsonl, queries.jsonl, qrels/."),
    ],
    split: Annotated[str, typer.Option(help="Name of the judgements: `qrels/<split>.tsv`.")] = "test",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Ask only this many judged questions, the first ones.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Index a judged collection and measure every branch and configuration on its questions.

    The questions go through the running pipeline; where none runs, one is started for this command. The
    corpus stays in a namespace of its own (`eval-<folder>`), so that the next run embeds only what changed.

    Exit code: 0 measured, 3 some answer was degraded and the figures are too low, 2 wrong usage, 1 anything else.

    Examples:

        chorale eval ~/collections/scifact

        chorale eval ~/collections/scifact --split train --limit 200 --json
    """
    from chorale_client import Chorale
    from chorale_client.words import Status

    from assembly.pipeline import load_pipeline
    from bench.collection import read_collection
    from cli.exit_codes import BY_STATUS
    from cli.local.measured_pipeline import LastLines, measured_pipeline
    from cli.terminal import print_json, stderr
    from config.settings import load_settings

    collection = read_collection(folder, split).limited(limit)
    settings = load_settings()
    pipeline = load_pipeline(settings.pipeline_file)
    console = stderr()
    with LastLines() as lines, measured_pipeline(settings, pipeline, lines) as resources:
        documents = _index(collection, resources, console)
        client = Chorale(resources.redis_url, broker_url=settings.broker_url)
        found = _ask(collection, resources, client, documents, console)
    if as_json:
        print_json(found.to_wire())
    else:
        _show(found)
    if found.faults:
        console.print(f"{sum(found.faults.values())} answers were not whole; the figures are too low:")
        for why, count in found.faults.items():
            console.print(f"  {why}: {count}")
        lines.show()
        raise typer.Exit(BY_STATUS[Status.DEGRADED])


def _index(collection: Collection, resources: Resources, console: Console) -> int:
    """Index the collection; returns its number of documents."""
    from cli.views.indexing_bar import IndexingBar
    from ingest.read import read_documents
    from tasks.indexing.indexing_run import SourceDocuments
    from tasks.indexing.namespace_writer import index_corpus

    total = collection.count_documents()
    with IndexingBar(console) as bar:
        bar.say(f"indexing {collection.name}", total=total)
        report = index_corpus(
            resources,
            SourceDocuments(
                read_documents([collection.corpus], source=collection.name, ids="given"),
                collection.name,
                prune=True,
                total=total,
            ),
            namespace=collection.namespace,
            progress=bar.show,
        )
    for skipped in report.skipped:
        console.print(str(skipped))
    return report.added + report.replaced + report.unchanged


def _ask(
    collection: Collection, resources: Resources, client: Chorale, documents: int, console: Console
) -> Evaluation:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from bench.evaluation import evaluate as ask_all
    from bench.evaluation import runs_of

    runs, count = runs_of(resources.pipeline), len(collection.questions)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=28), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as shown:
        task = shown.add_task("asking", total=count * len(runs))
        return ask_all(
            collection,
            runs=runs,
            documents=documents,
            ask=client.ask,
            progress=lambda run, questions: shown.update(task, description=run, advance=questions),
        )


def _show(found: Evaluation) -> None:
    from bench.metrics import MEASURES
    from cli.terminal import plain_table, stdout

    console, table = stdout(), plain_table("run", *(f">{name}" for name in MEASURES))
    for name, figures in found.figures.items():
        table.add_row(name, *(f"{figures[measure]:.4f}" for measure in MEASURES))
    console.print(
        f"{found.collection}: {found.documents:,} documents, {found.questions:,} judged questions\n"
    )
    console.print(table)
