"""`chorale judgements`: the grades of users and judges, as files for other commands and tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from cli.options import AsJson, Namespace, command_group
from cli.terminal import counted, plain_table, print_line, print_result

judgements = command_group("Export, import and count judgements: grades, thumbs and clicks on hits.")

NEWEST = 1_000
"""Recorded requests whose hits are counted."""


@judgements.command()
def export(
    format_: Annotated[
        Literal["golden", "trec", "jsonl"],
        typer.Option(
            "--format",
            help="`golden`: JSON lines for `chorale golden` and `tune`; `trec`: qrels; `jsonl`: every event, as UBI has it.",
        ),
    ] = "golden",
    namespace: Namespace = "default",
) -> None:
    """Print the judgements of a namespace.

    A grade counts as it is, a thumb up as 2 and a thumb down as 0. Clicks are no grades: only `jsonl` has them.
    Questions with one text are one question. Of each key's judgements of a document the latest counts, and of several
    keys the median. A document that nobody judged is in no file.

    Examples:

        chorale judgements export --namespace docs > judged.jsonl

        chorale judgements export --format trec --namespace docs > judged.qrels
    """
    from json import dumps

    from cli.commands.audit import trail
    from config.visible_text import visible_json
    from judgements import files, store
    from judgements.pooling import pooled

    with trail() as engine:
        feedback = store.listed(engine, namespace)
    judged = pooled(feedback)
    if format_ == "trec":
        lines = [line for question in judged for line in files.qrels_lines(question)]
    else:
        entries = (
            [files.ubi_event(item) for item in feedback]
            if format_ == "jsonl"
            else [entry for question in judged if (entry := files.golden_entry(question)) is not None]
        )
        lines = [visible_json(dumps(entry, ensure_ascii=False)) for entry in entries]
    if format_ == "golden" and (left_out := len(judged) - len(lines)):
        why = "no judged document fits and others may, or texts are not kept"
        print_line(f"{counted(left_out, 'judged question')} left out: {why}", sys.stderr)
    for line in lines:
        print_line(line)


@judgements.command("import")
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            help="JSON lines (.jsonl): events as `export --format jsonl` has them; else TREC qrels, whose topics are ids of "
            "requests or the hashes that `export --format trec` has."
        ),
    ],
    namespace: Namespace = "default",
    judge: Annotated[
        str, typer.Option(min=1, help="Whose judgements these are, unless a line has `client_id`.")
    ] = "import",
    as_json: AsJson = False,
) -> None:
    """Add judgements of a file, as those of a judge.

    Each belongs to a question of the audit trail, and is deleted with it. A judge's later grade of a document replaces
    the earlier one.

    Exit code: 0 all added, 8 some questions are not in the trail, 2 wrong usage or a wrong file, 1 anything else.

    Examples:

        chorale judgements import judged.qrels --namespace docs --judge anna
    """
    import time

    from cli.commands.audit import trail
    from cli.exit_codes import PART_DONE
    from judgements import store
    from judgements.feedback import Feedback
    from judgements.files import read_judgements

    lines = list(read_judgements(file))
    now_ms = time.time_ns() // 1_000_000
    with trail() as engine:
        questions = store.questions(engine, namespace, {line.event.request_id for line in lines})
        matched = [(line, questions.get((line.event.request_id, line.event.question))) for line in lines]
        feedback = [
            Feedback.on(question, line.event, line.at_ms or now_ms, line.judge or judge, "judge")
            for line, question in matched
            if question is not None
        ]
        store.put(engine, feedback)
    unknown = [line.line for line, question in matched if question is None]
    fields = {"imported": len(feedback), "not_recorded": unknown}
    print_result(fields, f"{counted(len(feedback), 'judgement')} of {namespace}: imported", as_json=as_json)
    if unknown:
        where = f"{counted(len(unknown), 'line')}, first line {unknown[0]}"
        print_line(
            f"chorale: {where}: the trail has no such question of the namespace {namespace!r}", sys.stderr
        )
        raise typer.Exit(PART_DONE)


@judgements.command()
def stats(namespace: Namespace = "default", as_json: AsJson = False) -> None:
    """Count events by source and action, and judged questions and hits.

    A document that nobody judged counts as unjudged, and never as grade 0.

    Examples:

        chorale judgements stats --namespace docs --json
    """
    from audit.queries import Which
    from cli.commands.audit import trail
    from judgements import store

    with trail() as engine:
        events = store.counts(engine, namespace)
        coverage = store.coverage(engine, Which(namespace=namespace), NEWEST)
    share = store.judged_share(coverage)
    table = plain_table("source", "action", ">events")
    for source, by_action in events.items():
        for action, count in by_action.items():
            table.add_row(source, action, f"{count:,}")
    of = {name: "{judged:,} of {all:,}".format_map(figures) for name, figures in share.items()}
    sentence = f"\njudged of the newest: {of['questions']} questions, {of['hits']} first hits"
    print_result({"events": events, **share}, table, sentence, as_json=as_json)
