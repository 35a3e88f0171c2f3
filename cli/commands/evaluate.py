"""`chorale eval`: measures how good the rankings are on a judged collection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from cli.evaluation_view import measures_table
from cli.options import AsJson, CollectionFolder, Limit, Split
from cli.terminal import print_result, stderr

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from evaluation.judged.collection import Collection
    from evaluation.judged.run import Evaluation
    from tasks.wiring.resources import Resources


def evaluate(
    folder: CollectionFolder,
    split: Split = "test",
    limit: Limit = None,
    fusion: Annotated[
        list[str] | None,
        typer.Option(help="Also measure this fusion method in the default configuration; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Index a judged collection and measure every branch and configuration on its questions.

    The questions go through the running pipeline; where none runs, one is started for this command. The
    corpus stays in a namespace of its own (`eval-<folder>`), so that the next run embeds only what changed.

    Exit code: 0 measured, 3 an answer was degraded, so the figures are too low, 2 wrong usage, 1 anything else.

    Examples:

        chorale eval ~/collections/scifact

        chorale eval ~/collections/scifact --fusion tm2c2 --fusion opensearch
    """
    from chorale_client.wire_names import Status

    from cli.exit_codes import BY_STATUS
    from cli.installation import find_installation
    from cli.local.measured_pipeline import measured_pipeline
    from cli.progress import question_bar
    from evaluation.judged.collection import read_collection
    from evaluation.judged.run import evaluate as ask_all
    from evaluation.judged.run import runs_of
    from tasks.wiring.pipeline import load_pipeline

    collection = read_collection(folder, split).limited(limit)
    settings = find_installation().settings
    pipeline = load_pipeline(settings.pipeline_file)
    for name in fusion or ():
        pipeline.kinds.method(name)
    console = stderr()
    with measured_pipeline(settings, pipeline) as measured:
        documents = index_collection(collection, measured.resources, console)
        runs = runs_of(pipeline, fusion or ())
        with question_bar(console, len(collection.questions) * len(runs)) as progress:
            evaluation = ask_all(
                collection, runs=runs, documents=documents, ask=measured.client.ask, progress=progress
            )
    if collection.exclusion_note:
        console.print(collection.exclusion_note)
    print_result(evaluation.to_wire(), *_parts(evaluation), as_json=as_json)
    if evaluation.faults:
        console.print(f"{sum(evaluation.faults.values())} answers were not whole; the figures are too low:")
        for why, count in evaluation.faults.items():
            console.print(f"  {why}: {count}")
        measured.lines.show()
        raise typer.Exit(BY_STATUS[Status.DEGRADED])


def index_collection(collection: Collection, resources: Resources, console: Console) -> int:
    """Index the collection; returns its number of documents."""
    from cli.progress import ProgressBar
    from ingest.read import read_documents
    from tasks.indexing.indexing_run import SourceDocuments
    from tasks.indexing.namespace_writer import index_corpus

    total = collection.count_documents()
    with ProgressBar(console) as bar:
        bar.say(f"indexing {collection.name}", total=total)
        report = index_corpus(
            resources,
            SourceDocuments(
                read_documents(
                    [collection.corpus], source=collection.name, ids="given", limits=resources.read_limits
                ),
                collection.name,
                prune=True,
                total=total,
            ),
            namespace=collection.namespace,
            progress=bar.show_indexing,
        )
    for skipped in report.skipped:
        console.print(str(skipped))
    return report.added + report.replaced + report.unchanged


def _parts(evaluation: Evaluation) -> Iterator[Table | str]:
    """What the console prints, from top to bottom."""
    yield f"{evaluation.collection}: {evaluation.documents:,} documents, {evaluation.questions:,} judged questions\n"
    yield measures_table("run", evaluation.figures)
    medians = ", ".join(f"{name} {score:.3g}" for name, score in evaluation.best_scores.items())
    yield f"\nmedian of the best scores: {medians}"
