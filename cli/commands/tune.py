"""`chorale tune`: chooses fusion by judged questions, and says whether that is better than what there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.evaluation_view import interval
from cli.options import AsJson, Limit, QuestionNamespace, Split
from cli.output import print_json
from cli.terminal import Text, plain_table, stderr, stdout

if TYPE_CHECKING:
    from rich.console import Console

    from config.settings import Settings
    from evaluation.judged.collection import Collection, Judgements
    from evaluation.tuning.branch_lists import JudgedQuestion
    from evaluation.tuning.cross_validation import Row, Tuning
    from tasks.wiring.resources import Resources

_MOST_METHODS = 6


def tune(
    folder: Annotated[
        Path | None,
        typer.Argument(help="A collection in the BEIR layout; it is indexed as by `chorale eval`."),
    ] = None,
    judgements: Annotated[
        Path | None,
        typer.Option(
            help="Instead of a collection: YAML or JSON lines with `question` and `expected`, as for `chorale golden`."
        ),
    ] = None,
    namespace: QuestionNamespace = "default",
    split: Split = "train",
    limit: Limit = None,
    name: Annotated[str, typer.Option(help="Name of the new configuration.")] = "tuned",
    output: Annotated[
        Path | None,
        typer.Option(
            help="The pipeline file to write; by default NAME.toml in CHORALE_HOME/tuning, or .yaml as the present one."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Choose method, weights, k, depth and boosts by judged questions, and say whether that is better.

    Every question is searched once. Then the fusion alone is tried with many configurations. Five times another fifth
    of the questions is held out, to measure what the others have chosen. If their nDCG@10 is better than with the
    best existing configuration, beyond chance, the command writes a pipeline file. No server and no worker has to
    run.

    Exit code: 0 decided, also for "not distinguishable"; 2 wrong usage, 1 anything else.

    Examples:

        chorale tune ~/collections/scifact

        chorale tune --judgements questions.yaml --namespace docs --output pipeline.toml
    """
    from cli.installation import find_installation
    from cli.progress import question_bar
    from config.home import find_redis_url
    from evaluation.judged.collection import read_collection
    from evaluation.tuning.branch_lists import record
    from evaluation.tuning.cross_validation import tune as tune_fusion
    from evaluation.tuning.tuned_file import check_name
    from tasks.wiring.pipeline import load_pipeline
    from tasks.wiring.resources import Resources

    if (folder is None) == (judgements is None):
        raise typer.BadParameter("one of the two is needed: FOLDER or --judgements FILE")
    settings = find_installation().settings
    pipeline = load_pipeline(settings.pipeline_file)
    check_name(name, pipeline)
    console = stderr()
    # The command sends no message; indexing publishes the new generation if a Redis runs.
    redis_url = settings.redis_url or find_redis_url(settings.home) or "redis://127.0.0.1:1/0"
    resources = Resources(settings, pipeline, redis_url)
    if folder is not None:
        collection = read_collection(folder, split).limited(limit)
        own = collection.own
        label, questions, graded = _collection_questions(collection, split, resources, console)
    else:
        assert judgements is not None
        own = frozenset()
        label, questions, graded = _file_questions(judgements, namespace, limit)
    with question_bar(console, len(questions)) as progress:
        recording = record(questions, resources, progress)
    with question_bar(console, None) as progress:
        tuning = tune_fusion(pipeline, recording, graded, own=own, name=name, progress=progress)
    written = _write(tuning, settings, output, f"chorale tune {label}")
    if as_json:
        print_json({**tuning.to_wire(), "file": None if written is None else str(written)})
    else:
        show_tuning(tuning, label, written)


def _collection_questions(
    collection: Collection, split: str, resources: Resources, console: Console
) -> tuple[str, list[JudgedQuestion], Judgements]:
    from cli.commands.evaluate import index_collection
    from evaluation.tuning.branch_lists import JudgedQuestion

    if collection.exclusion_note:
        console.print(collection.exclusion_note)
    index_collection(collection, resources, console)
    questions = [
        JudgedQuestion(id_, text, collection.namespace) for id_, text in collection.questions.items()
    ]
    return f"{collection.namespace.removeprefix('eval-')}-{split}", questions, collection.judgements


def _file_questions(
    file: Path, namespace: str, limit: int | None
) -> tuple[str, list[JudgedQuestion], Mapping[str, Mapping[str, int]]]:
    """Questions that nothing answers are left out: every ranking of theirs is as good as any."""
    from evaluation.judged.golden import read_golden
    from evaluation.tuning.branch_lists import JudgedQuestion

    answered = [question for question in read_golden(file) if question.expected][:limit]
    questions = [
        JudgedQuestion(
            f"line {question.line}", question.text, question.namespace or namespace, question.filters
        )
        for question in answered
    ]
    return file.stem, questions, {f"line {question.line}": question.expected for question in answered}


def _write(tuning: Tuning, settings: Settings, output: Path | None, command: str) -> Path | None:
    """Writes the pipeline file if the tuned configuration is better; returns the file."""
    from evaluation.tuning.tuned_file import write_tuned

    if not tuning.is_better:
        return None
    suffix = settings.pipeline_file.suffix if settings.pipeline_file else ".toml"
    target = output or settings.home / "tuning" / f"{tuning.configuration.name}{suffix}"
    gain = tuning.over_best
    remarks = (
        f"{command}: nDCG@10 {interval(gain)}",
        f"over {tuning.best_existing} on {gain.questions} held-out questions",
    )
    write_tuned(tuning.configuration, remarks, source=settings.pipeline_file, target=target)
    return target


def _displayed_rows(tuning: Tuning) -> Sequence[Row]:
    """Configurations, the best methods, and the tuned rows."""
    methods = [row for row in tuning.rows if row.name.startswith("fusion=")]
    best = sorted(methods, key=lambda row: -row.mean)[:_MOST_METHODS]
    return [row for row in tuning.rows if row in best or not row.name.startswith("fusion=")]


def show_tuning(tuning: Tuning, label: str, written: Path | None) -> None:
    """Print table, verdict, and how the written file is used."""
    console = stdout()
    types = ", ".join(f"{count} {name}" for name, count in tuning.types.items())
    console.print(
        Text(
            f"{label}: {tuning.questions:,} judged questions ({types}); {tuning.tried:,} configurations tried\n"
        )
    )
    table = plain_table("", ">nDCG@10", f">gain over {tuning.default}", ">wins", ">losses")
    for row in _displayed_rows(tuning):
        name = f"{row.name} (held out)" if row.is_held_out else row.name
        table.add_row(
            Text(name), f"{row.mean:.4f}", interval(row.gain), str(row.gain.wins), str(row.gain.losses)
        )
    console.print(table)
    console.print()
    for line in [*_verdict(tuning), *_use(tuning, written)]:
        console.print(Text(line), soft_wrap=True)


def _verdict(tuning: Tuning) -> list[str]:
    name, gain = tuning.configuration.name, tuning.over_best
    comparison = (
        f"{name} over the best existing configuration ({tuning.best_existing}), held out: {interval(gain)}"
    )
    lines = (
        [f"Better. {comparison}"]
        if tuning.is_better
        else [f"Not distinguishable. {comparison}; nothing is written."]
    )
    if tuning.ends_at is not None:
        lines.append(f"With all questions the search chooses {tuning.ends_at} itself.")
    existing = tuning.row(tuning.best_existing)
    if tuning.best_existing != tuning.default and existing.gain.is_better and not tuning.is_better:
        lines.append(
            f"{existing.name} is better than the default {tuning.default}: {interval(existing.gain)}"
        )
    if tuning.by_type is None:
        lines.append("Weights by type of question: no type has enough questions, or weights of its own.")
    else:
        verdict = "better" if tuning.by_type.is_better else "not distinguishable, and left out"
        lines.append(f"Weights by type of question: {interval(tuning.by_type)}: {verdict}.")
    return lines


def _use(tuning: Tuning, written: Path | None) -> list[str]:
    if written is None:
        return []
    name = tuning.configuration.name
    return [
        f"Written: {written}",
        f"Use it:  CHORALE_PIPELINE_FILE={written} chorale up",
        f'         chorale search --configuration {name} "…"   (or default_configuration = "{name}" in the file)',
    ]
