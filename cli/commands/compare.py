"""`chorale compare`: which of two rankings answers judged questions better, and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.evaluation_view import interval, measures_table, movements_table
from cli.exit_codes import BY_STATUS
from cli.options import AsJson, Limit, Split
from cli.terminal import Text, print_result, stderr
from models.errors import WrongDeclaration

if TYPE_CHECKING:
    from rich.table import Table

    from config.settings import Settings
    from evaluation.judged.collection import Collection
    from evaluation.judged.comparison import Answered, Comparison, Mover
    from evaluation.recorded.shadow_comparison import ShadowComparison


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A configuration, or a file of recorded answers.")],
    b: Annotated[
        str, typer.Argument(metavar="B", help="Another one; a win is a question that B answers better.")
    ],
    folder: Annotated[
        Path | None,
        typer.Argument(help="A collection in the BEIR layout: corpus.jsonl, queries.jsonl, qrels/."),
    ] = None,
    split: Split = "test",
    limit: Limit = None,
    measure: Annotated[str, typer.Option(help="ndcg@10, recall@10, recall@100 or mrr@10.")] = "ndcg@10",
    movers: Annotated[int, typer.Option(min=0, max=1_000, help="Explain this many questions.")] = 5,
    record: Annotated[
        Path | None, typer.Option(help="Write the answers of each configuration into this folder.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="By the requests of users that A and B share.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare two configurations, or recorded answers, on the judged questions of a collection.

    Shows wins, losses and ties by question, a paired test, and the questions that differ most, with the rank and the
    contribution of each branch under A and under B. Questions go through the running pipeline; where none runs, one is
    started for this command. A file holds JSON lines of `chorale jobs results` or of --record, or a TREC run; two files need no
    pipeline.

    With --live, by the feedback on pages that both configurations shared ([interleaving] in the pipeline file), and by what B
    answered to requests under A on the bulk workers ([shadow]); nothing is searched then.

    Exit code: 0 compared, 3 some answer was degraded or is missing, 2 wrong usage, 1 anything else.

    Examples:

        chorale compare rrf scores ~/collections/scifact

        chorale compare before/scores.jsonl scores ~/collections/scifact

        chorale compare --live rrf scores
    """
    if live is not (folder is None):
        wrong = "--live takes none" if live else "needed without --live"
        raise typer.BadParameter(wrong, param_hint="FOLDER")
    if folder is None:
        _compare_live(a, b, as_json=as_json)
        return
    from chorale_client.wire_names import Status

    from cli.installation import find_installation
    from evaluation.judged.collection import read_collection
    from evaluation.judged.comparison import compare as compared
    from evaluation.judged.comparison import write_answers
    from evaluation.judged.metrics import MEASURES, measure_each

    if measure not in MEASURES:
        raise typer.BadParameter(f"{measure!r}; there are: {', '.join(MEASURES)}", param_hint="--measure")
    collection = read_collection(folder, split).limited(limit)
    # Report a missing package now, not after all questions.
    measure_each(collection.judgements, {})
    sides = _sides(collection, find_installation().settings, (a, b))
    if record is not None:
        record.mkdir(parents=True, exist_ok=True)
        for side in sides:
            if not Path(side.name).is_file():
                write_answers(side, record / f"{side.name}.jsonl")
    comparison = compared(collection, *sides, measure=measure, movers=movers)
    if collection.exclusion_note:
        stderr().print(collection.exclusion_note)
    print_result(comparison.to_wire(), *_parts(comparison), as_json=as_json)
    if any(comparison.faults):
        stderr().print(
            f"degraded, failed or missing answers: {comparison.faults[0]:,} of {a}, {comparison.faults[1]:,} of {b}"
        )
        raise typer.Exit(BY_STATUS[Status.DEGRADED])


def _compare_live(a: str, b: str, *, as_json: bool) -> None:
    from cli.audit.trail import trail
    from evaluation.recorded.live_comparison import compare_live
    from evaluation.recorded.shadow_comparison import compare_shadows
    from records.audit.shadow_pairs import shadow_pairs
    from records.judgements.impressions import impressions
    from records.judgements.pooling import pooled
    from records.judgements.store import on_questions

    with trail() as engine:
        compared = compare_live(a, b, impressions(engine, a, b))
        pairs = shadow_pairs(engine, a, b)
        feedback = on_questions(
            engine, {pair.namespace for pair in pairs}, {pair.text_hash for pair in pairs}
        )
    by_name = {(question.namespace, question.text_hash): question for question in pooled(feedback)}
    shadows = compare_shadows(a, b, pairs, by_name) if pairs else None
    wire = {**compared.to_wire(), "shadow": shadows and shadows.to_wire()}
    if shadows and not compared.shared:
        print_result(wire, *_shadow_parts(shadows), as_json=as_json)
        return
    pages = (
        f"{compared.shared:,} requests under {a} shared their page with {b}; "
        f"{compared.different:,} of these pages have hits that belong to one of them"
    )
    parts = [Text(pages), Text(compared.verdict), *(_shadow_parts(shadows) if shadows else ())]
    print_result(wire, *parts, as_json=as_json)


def _shadow_parts(shadows: ShadowComparison) -> Iterator[Text]:
    yield from map(Text, shadows.sentences)
    gain = shadows.judged.gain
    if gain is None:
        yield Text("no question of them has a document that people judged as relevant")
        return
    better = {"A": f"{shadows.a} is better", "B": f"{shadows.b} is better", None: "not distinguishable"}
    verdict = better[shadows.judged.better]
    yield Text(f"nDCG@10 of {gain.questions:,} judged questions, B - A: {interval(gain)}: {verdict}")


def _sides(collection: Collection, settings: Settings, names: tuple[str, str]) -> tuple[Answered, Answered]:
    """The answers of both sides: read, or asked of the pipeline."""
    from cli.commands.evaluate import index_collection
    from cli.local.measured_pipeline import measured_pipeline
    from cli.progress import question_bar
    from evaluation.judged.comparison import answered, read_answers
    from tasks.wiring.pipeline import load_pipeline

    answers = {name: read_answers(Path(name), collection) for name in names if Path(name).is_file()}
    configurations = [name for name in dict.fromkeys(names) if name not in answers]
    pipeline = load_pipeline(settings.pipeline_file)
    for name in configurations:
        if name not in pipeline.configurations:
            raise WrongDeclaration(
                f"{name}: neither a file nor a configuration; there are: {', '.join(pipeline.configurations)}"
            )
    if configurations:
        console = stderr()
        with measured_pipeline(settings, pipeline) as measured:
            index_collection(collection, measured.resources, console)
            with question_bar(console, len(configurations) * len(collection.questions)) as progress:
                for name in configurations:
                    answers[name] = answered(
                        collection, pipeline, name, ask=measured.client.ask, progress=progress
                    )
    return answers[names[0]], answers[names[1]]


def _parts(comparison: Comparison) -> Iterator[Table | Text | str]:
    """What the console prints: the means, the paired test, and the questions that differ most."""
    (a, b), gain = comparison.names, comparison.gain
    sides = {f"{'AB'[at]}  {name}": at for at, name in enumerate(comparison.names)}
    means = comparison.means
    yield f"{comparison.collection}: {gain.questions:,} judged questions\n"
    yield measures_table("", {side: {name: means[name][at] for name in means} for side, at in sides.items()})
    verdict = "not distinguishable"
    if gain.is_distinguishable:
        verdict = f"{b if gain.mean > 0 else a} is better"
    yield f"\n{comparison.measure}, B - A: {interval(gain)}: {verdict}"
    yield f"B wins {gain.wins:,}, loses {gain.losses:,}, ties {comparison.ties:,}"
    for mover in comparison.movers:
        yield ""
        yield from _mover_parts(mover)


def _mover_parts(mover: Mover) -> Iterator[Table | Text]:
    before, after = mover.values
    yield Text.assemble(
        (f"{before:.3f} → {after:.3f}  ", "green" if after > before else "red"),
        (mover.text, "bold"),
        (f"  {mover.question_id}", "dim"),
    )
    marks = [
        f"relevant ({grade})" if (grade := mover.grades.get(movement.document_id, 0)) > 0 else ""
        for movement in mover.moved
    ]
    yield movements_table(mover.moved, marks)
