"""`chorale tune`: chooses fusion by judged questions, and says whether that is better than what there is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import AsJson

if TYPE_CHECKING:
    from rich.console import Console

    from config.settings import Settings
    from evaluation.branch_lists import Asked
    from evaluation.collection import Judgements
    from evaluation.tuning import Tuning
    from wiring.resources import Resources


def tune(
    folder: Annotated[
        Path | None,
        typer.Argument(help="A collection in the BEIR layout; it is indexed as by `chorale eval`."),
    ] = None,
    judgements: Annotated[
        Path | None,
        typer.Option(
            help="Instead of a collection: YAML or JSON lines with `question` and `expected`, as for `chorale golden`.",
        ),
    ] = None,
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace", "-n", help="Namespace of the questions of `--judgements` that name none."
        ),
    ] = "default",
    split: Annotated[str, typer.Option(help="Name of the judgements of a collection.")] = "train",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Use only this many judged questions, the first ones.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the new configuration.")] = "tuned",
    output: Annotated[
        Path | None,
        typer.Option(help="The pipeline file to write; by default NAME.toml in CHORALE_HOME/tuning."),
    ] = None,
    plot: Annotated[
        list[Path] | None, typer.Option(help="Draw the table to this .png or .html file; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Which questions are held out together.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Choose method, weights, k, depth and boosts by judged questions, and say whether that is better.

    Every question is searched once, and what the branches found is kept in CHORALE_HOME/tuning; an interrupted
    run goes on from there. Then the fusion alone is tried with many configurations. Five times a fifth of the
    questions is held out, and counts for what the others have chosen. Only if these questions have a better
    nDCG@10 than with the best existing configuration, beyond chance, a pipeline file with the new configuration is
    written. No server and no worker has to run.

    Exit code: 0 decided, also for "not distinguishable"; 2 wrong usage, 1 anything else.

    Examples:

        chorale tune ~/collections/scifact --plot tuning.png

        chorale tune --judgements questions.yaml --namespace docs --output pipeline.toml

        chorale tune ~/collections/scifact --split dev --limit 300 --json
    """
    from cli.terminal import print_json, stderr
    from cli.views.asking_bar import asking_bar
    from cli.views.tuning import draw_tuning, show_tuning
    from config.local_redis import find_redis_url
    from config.settings import load_settings
    from evaluation.branch_lists import record
    from evaluation.pictures import check_picture_file
    from evaluation.tuned_file import check_name
    from evaluation.tuning import tune as tune_fusion
    from wiring.pipeline import load_pipeline
    from wiring.resources import Resources

    if (folder is None) == (judgements is None):
        raise typer.BadParameter("one of the two is needed: FOLDER or --judgements FILE")
    for file in plot or ():
        check_picture_file(file)
    settings = load_settings()
    pipeline = load_pipeline(settings.pipeline_file)
    check_name(name, pipeline)
    console = stderr()
    # Nothing is sent; whoever indexes tells a Redis that runs.
    redis_url = settings.redis_url or find_redis_url(settings.home) or "redis://127.0.0.1:1/0"
    resources = Resources(settings, pipeline, redis_url)
    if folder is not None:
        label, asked, graded = _of_collection(folder, split, limit, resources, console)
    else:
        assert judgements is not None
        label, asked, graded = _of_file(judgements, namespace, limit)
    with asking_bar(console, len(asked)) as progress:
        recording = record(asked, resources, settings.home / "tuning" / f"{label}.jsonl", progress)
    with asking_bar(console, None) as progress:
        found = tune_fusion(pipeline, recording, graded, name=name, seed=seed, progress=progress)
    written = _write(found, settings, output, f"chorale tune {label} --seed {seed}")
    for file in plot or ():
        draw_tuning(found, label, file)
    if as_json:
        print_json({**found.to_wire(), "file": None if written is None else str(written)})
    else:
        show_tuning(found, label, written)


def _of_collection(
    folder: Path, split: str, limit: int | None, resources: Resources, console: Console
) -> tuple[str, list[Asked], Judgements]:
    from cli.commands.evaluate import index_collection
    from evaluation.branch_lists import Asked
    from evaluation.collection import read_collection

    collection = read_collection(folder, split).limited(limit)
    index_collection(collection, resources, console)
    asked = [Asked(id_, text, collection.namespace) for id_, text in collection.questions.items()]
    return f"{collection.namespace.removeprefix('eval-')}-{split}", asked, collection.judgements


def _of_file(
    file: Path, namespace: str, limit: int | None
) -> tuple[str, list[Asked], Mapping[str, Mapping[str, int]]]:
    """Questions that nothing answers are left out: every ranking of theirs is as good as any."""
    from evaluation.branch_lists import Asked
    from evaluation.golden_file import read_golden

    answered = [one for one in read_golden(file) if one.expected][:limit]
    asked = [Asked(f"line {one.line}", one.text, one.namespace or namespace, one.filters) for one in answered]
    return file.stem, asked, {f"line {one.line}": one.expected for one in answered}


def _write(found: Tuning, settings: Settings, output: Path | None, command: str) -> Path | None:
    """Writes the pipeline file if the tuned configuration is better; returns the file."""
    from evaluation.tuned_file import write_tuned

    if not found.is_better:
        return None
    target = output or settings.home / "tuning" / f"{found.configuration.name}.toml"
    gain = found.over_best
    remarks = (
        f"{command}: nDCG@10 {gain.mean:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]",
        f"over {found.best_existing} on {gain.questions} held-out questions",
    )
    write_tuned(found.configuration, remarks, source=settings.pipeline_file, target=target)
    return target
