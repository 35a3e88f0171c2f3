"""`chorale judgements`: what users and judges said of hits, as files that other commands and tools read."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cli.options import AsJson, Namespace, command_group
from cli.terminal import counted, plain_table, print_line, print_result

judgements = command_group("Export, import and count judgements: grades, thumbs and clicks on hits.")

NEWEST = 1_000
"""Recorded questions whose hits are counted."""


class Format(StrEnum):
    GOLDEN = "golden"
    TREC = "trec"
    JSONL = "jsonl"


@judgements.command()
def export(
    format_: Annotated[
        Format,
        typer.Option(
            "--format",
            help="`golden`: JSON lines for `chorale golden` and `tune`; `trec`: qrels; `jsonl`: every event, as UBI has it.",
        ),
    ] = Format.GOLDEN,
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
    import json

    from cli.commands.audit import trail
    from judgements import files, store
    from judgements.pooling import pooled

    with trail() as engine:
        feedback = store.listed(engine, namespace)
    judged = [] if format_ == Format.JSONL else pooled(feedback)
    if format_ == Format.JSONL:
        lines = [json.dumps(files.ubi_event(item)) for item in feedback]
    elif format_ == Format.TREC:
        lines = [line for question in judged for line in files.qrels_lines(question)]
    else:
        entries = [entry for question in judged if (entry := files.golden_entry(question)) is not None]
        lines = [json.dumps(entry) for entry in entries]
        if left_out := len(judged) - len(entries):
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
        feedback = [
            Feedback.on(
                questions[key],
                line.event,
                at_ms=now_ms if line.at_ms is None else line.at_ms,
                key_id=line.judge or judge,
                source="judge",
            )
            for line in lines
            if (key := (line.event.request_id, line.event.question)) in questions
        ]
        store.put(engine, feedback)
    unknown = [line.line for line in lines if (line.event.request_id, line.event.question) not in questions]
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
    hits, judged = sum(len(item.documents) for item in coverage), sum(len(item.judged) for item in coverage)
    questions = sum(item.is_begun for item in coverage)
    fields = {
        "events": events,
        "questions": {"judged": questions, "unjudged": len(coverage) - questions},
        "hits": {"judged": judged, "unjudged": hits - judged},
    }
    table = plain_table("source", "action", ">events")
    for source, by_action in events.items():
        for action, count in by_action.items():
            table.add_row(source, action, f"{count:,}")
    sentence = (
        f"\nthe newest recorded questions: {questions:,} of {len(coverage):,} are judged, "
        f"{judged:,} of their first hits are judged and {hits - judged:,} are not"
    )
    print_result(fields, table, sentence, as_json=as_json)
