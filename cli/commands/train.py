"""`chorale train confidence`: fits what tells the confidence of answers, for the models of this installation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import AsJson, command_group
from cli.terminal import plain_table, print_result, stderr

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console
    from rich.table import Table

    from config.settings import Settings
    from evaluation.collection import Collection
    from evaluation.confidence import Check, Judged

train = command_group("Fit models of this installation on judged questions.")

LARGEST_ERROR = 0.05


@train.command()
def confidence(
    folders: Annotated[
        list[Path],
        typer.Argument(
            help="Two or more collections in the BEIR layout; FOLDER:SPLIT names the judgements, `train` by default."
        ),
    ],
    check: Annotated[
        list[Path],
        typer.Option(help="A collection to check the result on, FOLDER:SPLIT; may be given again."),
    ],
    out: Annotated[Path, typer.Option(help="File to write; CHORALE_CONFIDENCE_FILE names it then.")],
    limit: Annotated[
        int | None, typer.Option(min=50, help="Ask only this many judged questions of each, evenly spaced.")
    ] = None,
    configuration: Annotated[str | None, typer.Option(help="The configuration that answers.")] = None,
    as_json: AsJson = False,
) -> None:
    """Fit the confidence of answers on judged collections, and check it on others.

    Each collection is asked its own questions and those of the others, which nothing in it answers. The questions go
    through the running pipeline; where none runs, one is started for this command.

    Exit code: 0 the calibration error is below .05 on every checked collection, 3 it is not (the file is written all
    the same), 2 wrong usage, 1 anything else.

    Examples:

        chorale train confidence ~/c/feedbackqa ~/c/obliqa:dev --check ~/c/scifact:test --out confidence.json
    """
    from chorale_client.wire_names import Status

    from cli.exit_codes import BY_STATUS
    from config.settings import load_settings
    from evaluation.confidence import check as checked
    from evaluation.confidence import fit, to_wire
    from fusion.confidence import FittedFile

    if len(folders) < 2:
        raise typer.BadParameter("one collection has no questions of another: give two", param_hint="FOLDERS")
    learned, others = [_read(name, limit) for name in folders], [_read(name, limit) for name in check]
    names = [each.namespace.removeprefix("eval-") for each in (*learned, *others)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise typer.BadParameter(
            f"{twice[0]} is there twice: one split of it answers the questions of another",
            param_hint="FOLDERS and --check",
        )
    answers, fingerprints = _answers(learned, others, load_settings(), configuration, stderr())
    pooled = [answer for collection in learned for answer in answers[collection.name]]
    models = list(fit(pooled, fingerprints))
    if not models:
        raise typer.BadParameter(
            "its answers lack a cosine and a reranker's score", param_hint="--configuration"
        )
    checks = [[checked(other.name, answers[other.name], model) for other in others] for model in models]
    figures = [
        {"signals": list(model.signals), "checks": [to_wire(result) for result in of_model]}
        for model, of_model in zip(models, checks, strict=True)
    ]
    arguments = [*(f.name for f in folders), *(f"--check {f.name}" for f in check)]
    arguments += [f"--limit {limit}"] if limit else []
    command = f"chorale train confidence {' '.join(arguments)}"
    file = FittedFile(how=command, figures=figures, models=tuple(models))
    out.write_text(file.model_dump_json(indent=1) + "\n", encoding="utf-8")
    print_result({"file": str(out), "figures": figures}, *_parts(checks[0]), as_json=as_json)
    if any(result.error >= LARGEST_ERROR for result in checks[0]):
        raise typer.Exit(BY_STATUS[Status.DEGRADED])


def _read(named_folder: Path, limit: int | None) -> Collection:
    from evaluation.collection import read_collection
    from evaluation.confidence import spaced

    name, _, split = named_folder.name.partition(":")
    return spaced(read_collection(named_folder.with_name(name), split or "train"), limit)


def _answers(
    learned: Sequence[Collection],
    others: Sequence[Collection],
    settings: Settings,
    configuration: str | None,
    console: Console,
) -> tuple[Mapping[str, list[Judged]], Mapping[str, str]]:
    """The judged answers by collection, and the fingerprints of the models by role."""
    from cli.commands.evaluate import index_collection
    from cli.local.measured_pipeline import measured_pipeline
    from cli.views.progress import asking_bar
    from evaluation.confidence import judged
    from wiring.pipeline import load_pipeline

    pipeline = load_pipeline(settings.pipeline_file)
    with measured_pipeline(settings, pipeline) as measured:
        for collection in (*learned, *others):
            index_collection(collection, measured.resources, console)
        with asking_bar(console, 2 * sum(len(each.questions) for each in (*learned, *others))) as progress:
            answers = {
                each.name: judged(
                    each, learned, measured.client.ask, configuration=configuration, progress=progress
                )
                for each in (*learned, *others)
            }
        fingerprints = {"embedder": measured.resources.embedder.fingerprint}
        chosen = pipeline.configurations[configuration or pipeline.default_configuration]
        if chosen.reranker is not None:
            fingerprints["reranker"] = measured.resources.reranker(chosen.reranker.name).fingerprint
    return answers, fingerprints


def _parts(checks: Sequence[Check]) -> Iterator[Table | str]:
    """What the console prints, from top to bottom."""
    for check in checks:
        own, foreign = check.abstained
        yield (
            f"{check.collection}: calibration error {check.error:.3f} over {check.questions:,} questions; below .5 at top_k 5 "
            f"are {own:.0%} of its own questions and {foreign:.0%} of the foreign ones"
        )
        table = plain_table(">confidence", ">share", ">promised", ">kept")
        for row in check.table:
            table.add_row(
                f"{row.low:.1f}–{row.low + 0.1:.1f}",
                f"{row.share:.3f}",
                f"{row.promised:.3f}",
                f"{row.kept:.3f}",
            )
        yield table
