"""`chorale train reranker`: fine-tunes a cross-encoder on the judged questions of a collection."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.commands.train_confidence import confidence
from cli.options import AsJson, CollectionFolder, command_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from config.settings import Settings
    from evaluation.collection import Collection
    from evaluation.judged_candidates import JudgedQuestion
    from evaluation.reranker_training import Progress, RerankerTraining

train = command_group("Fine-tune a model on judged questions.")

CANDIDATES = 100
"""As many as a reranker's `coarse` has."""


train.command()(confidence)


@train.command()
def reranker(
    folder: CollectionFolder,
    out: Annotated[Path, typer.Option(help="Folder for the model and the state of the training.")],
    split: Annotated[str, typer.Option(help="Name of the judgements: `qrels/<split>.tsv`.")] = "train",
    limit: Annotated[int | None, typer.Option(min=20, help="Use only this many judged questions.")] = None,
    base: Annotated[
        str, typer.Option(help="The encoder or cross-encoder to begin with: a folder, or a name on the hub.")
    ] = "sentence-transformers/all-MiniLM-L6-v2",
    minutes: Annotated[float, typer.Option(min=0.01, help="Time for training and checks.")] = 20,
    max_pieces: Annotated[
        int, typer.Option(min=16, max=8_192, help="Word pieces of question and passage together.")
    ] = 128,
    negatives: Annotated[
        int, typer.Option(min=1, max=63, help="Hard negatives beside each relevant passage.")
    ] = 3,
    held_out: Annotated[
        int, typer.Option(min=1, help="Hold out a tenth of the questions, and at most this many.")
    ] = 80,
    configuration: Annotated[
        str | None, typer.Option(help="The configuration whose candidates are learned from.")
    ] = None,
    threads: Annotated[int, typer.Option(min=0, help="Threads of PyTorch; 0: one for each core.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Fine-tune a cross-encoder on the candidates that the branches find for judged questions.

    The best model on the held-out questions is kept. Ctrl-C ends the training and keeps the best model so far; the same
    command goes on from there. Needs PyTorch (`make torch`) and `make eval`.

    Exit code: 0 trained, 6 interrupted, 2 wrong usage, 1 anything else.

    Examples:

        chorale train reranker ~/collections/scifact --out ~/models/scifact-reranker

        chorale train reranker ~/collections/scifact --out ~/models/r --minutes 60 --max-pieces 256 --json
    """
    import os

    from chorale_client.words import Status

    from cli.exit_codes import BY_STATUS
    from cli.terminal import print_json, stderr
    from config.settings import load_settings
    from evaluation.collection import read_collection
    from evaluation.reranker_training import Recipe, RerankerTraining, check_recipe

    collection, console = read_collection(folder, split).limited(limit), stderr()
    made_of = {"collection": collection.name, "split": split, "limit": limit, "configuration": configuration}
    recipe = Recipe(
        base,
        minutes * 60,
        max_pieces,
        negatives,
        held_out,
        learns_from=", ".join(f"{name} {value}" for name, value in made_of.items() if value),
        threads=threads or os.cpu_count() or 1,
    )
    check_recipe(out := out.expanduser().resolve(), recipe)
    questions = _candidates(collection, load_settings(), configuration, out / "training", made_of, console)
    training = RerankerTraining(out, recipe, questions)
    with _stoppable() as is_stopped:
        found = training.run(show=_shown(console, training), is_stopped=is_stopped)
    is_whole = found.spent_s >= recipe.seconds
    if as_json:
        print_json(_wire(training, found, is_whole))
    else:
        _show(training, found)
    if not is_whole:
        kept = "the best model so far is kept" if found.best else "no model is written yet"
        console.print(f"interrupted: {kept}; the same command goes on from here")
        raise typer.Exit(BY_STATUS[Status.CANCELLED])


def _candidates(
    collection: Collection,
    settings: Settings,
    configuration: str | None,
    folder: Path,
    made_of: dict[str, Any],
    console: Console,
) -> list[JudgedQuestion]:
    """The candidates of the questions: those of an earlier run, or those that the pipeline finds now."""
    from assembly.pipeline import load_pipeline
    from cli.commands.evaluate import index_collection
    from cli.local.measured_pipeline import measured_pipeline
    from cli.views.asking_bar import asking_bar
    from evaluation.judged_candidates import keep, kept, mined

    file = folder / "candidates.json"
    if (questions := kept(file, of=made_of)) is not None:
        return questions
    pipeline = load_pipeline(settings.pipeline_file)
    with measured_pipeline(settings, pipeline) as measured:
        index_collection(collection, measured.resources, console)
        with asking_bar(console, len(collection.questions)) as progress:
            questions = mined(
                collection,
                depth=CANDIDATES,
                ask=measured.client.ask,
                configuration=configuration,
                progress=lambda count: progress("candidates", count),
            )
    keep(questions, file, of=made_of)
    return questions


@contextmanager
def _stoppable() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C or SIGTERM only asks to stop; a second one ends the process."""
    stopped = False

    def stop(number: int, frame: object) -> None:
        nonlocal stopped
        stopped = True
        signal.signal(number, before[number])

    numbers: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield lambda: stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _shown(console: Console, training: RerankerTraining) -> Callable[[Progress], None]:
    """Prints a line for each check, and on a terminal one that is written over."""
    said = len(training.progress.checks)

    def show(so_far: Progress) -> None:
        nonlocal said
        minutes, whole = so_far.spent_s / 60, training.recipe.seconds / 60
        line = f"{minutes:.1f} of {whole:g} min · {so_far.pairs:,} pairs · loss {so_far.loss:.3f}"
        if len(so_far.checks) > said:
            said = len(so_far.checks)
            check = so_far.checks[-1]
            console.print(
                f"{line} · held out: nDCG@10 {check.ndcg:.4f} with weight {check.weight:g}, "
                f"{check.alone:.4f} alone, {check.fused:.4f} fused"
            )
        elif console.is_terminal:
            console.print(line, end="\r")

    return show


def _wire(training: RerankerTraining, found: Progress, is_whole: bool) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "model": str(training.folder / "model") if found.best else None,
        "is_complete": is_whole,
        "learned_from": training.learned,
        "held_out": training.held_out,
        "minutes": round(found.spent_s / 60, 2),
        "cpu_minutes": round(found.cpu_s / 60, 2),
        "pairs": found.pairs,
        "best": asdict(found.best) if found.best else None,
        "checks": [asdict(check) for check in found.checks],
    }


def _show(training: RerankerTraining, found: Progress) -> None:
    from cli.terminal import stdout

    console, best = stdout(), found.best
    if best is None:
        return
    console.print(
        f"learned from {training.learned:,} questions; on {training.held_out:,} held-out questions: nDCG@10 "
        f"{best.ndcg:.4f} with weight {best.weight:g}, {best.fused:.4f} without a reranker "
        f"(95 % of the gain: {best.low:+.4f} to {best.high:+.4f})"
    )
    if best.low <= 0:
        console.print("not distinguishable from the fused order on the held-out questions")
    console.print(
        f'\n[rerankers.trained]\nmodel = "{training.folder / "model"}"\nweight = {best.weight:g}\n'
        f"max_pieces = {training.recipe.max_pieces}\n",
        markup=False,
        soft_wrap=True,
    )
