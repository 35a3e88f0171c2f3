"""`chorale judgements`: the grades of users and judges, as files for other commands and tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from cli.options import AsJson, Namespace, command_group
from cli.output import print_line
from cli.terminal import counted, plain_table, print_result

judgements = command_group(
    "Export, import, count and generate judgements: grades, thumbs and clicks on hits."
)

NEWEST = 1_000
"""Recorded requests whose hits are counted, or graded."""
AT_ONCE = 16
"""Hits that a language model grades within GRADING_S seconds."""
GRADING_S = 60.0
READ_S = 10.0


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
    by_llm: Annotated[
        bool, typer.Option("--by-llm", help="The grades of language models, instead of people's judgements.")
    ] = False,
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

    from cli.audit.trail import trail
    from config.visible_text import visible_json
    from records.judgements import files, store
    from records.judgements.feedback import LLM
    from records.judgements.pooling import pooled

    with trail() as engine:
        feedback = store.listed(engine, namespace)
    judged = pooled(feedback, by_llm=by_llm)
    if format_ == "trec":
        lines = [line for question in judged for line in files.qrels_lines(question)]
    else:
        entries = (
            [files.ubi_event(item) for item in feedback if (item.source == LLM) == by_llm]
            if format_ == "jsonl"
            else [entry for question in judged if (entry := files.golden_entry(question)) is not None]
        )
        lines = [visible_json(dumps(entry, ensure_ascii=False)) for entry in entries]
    if format_ == "golden" and (omitted := len(judged) - len(lines)):
        why = "no judged document fits and others may, or texts are not kept"
        print_line(f"{counted(omitted, 'judged question')} left out: {why}", sys.stderr)
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

    from cli.audit.trail import trail
    from cli.exit_codes import PART_DONE
    from records.judgements import store
    from records.judgements.feedback import Feedback
    from records.judgements.files import read_judgements

    lines = list(read_judgements(file))
    now_ms = time.time_ns() // 1_000_000
    with trail() as engine:
        questions = store.questions(engine, namespace, {line.event.request_id for line in lines})
        matched = [(line, questions.get((line.event.request_id, line.event.question))) for line in lines]
        feedback = [
            Feedback.on(question, line.event, line.at_ms or now_ms, line.judge or judge, line.source)
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
def grade(
    branch: Annotated[
        str,
        typer.Argument(help="A branch of the pipeline file that asks a language model; that model grades."),
    ],
    namespace: Namespace = "default",
    limit: Annotated[int, typer.Option(min=1, help="Hits to grade.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Have a language model grade the first hits of recorded questions, the newest first.

    Its grades have the source `llm` and are never mixed with those of people: `export`, the console and `stats` count
    people's judgements, and `export --by-llm` has the model's. Questions and passages are sent to the model. A hit that the
    model has graded is not graded again.

    Exit code: 0 all graded, 8 some are not, 2 wrong usage, 1 anything else.

    Examples:

        chorale judgements grade hyde --namespace docs --limit 200
    """
    import time

    from cli.audit.trail import trail
    from cli.exit_codes import PART_DONE
    from cli.installation import find_installation
    from cli.namespace_states import existing
    from models.batching import in_batches
    from models.errors import NotConfigured, StageFailure
    from records.judgements import store
    from records.judgements.feedback import LLM, Event, Feedback
    from records.judgements.language_model import ask_grades

    installation = find_installation()
    resources = installation.resources
    generators = resources.generators
    options = generators.options(branch)
    if options is None or options.url is None:
        names = [each.name for each in resources.pipeline.branches]
        models = [name for name in names if (of := generators.options(name)) is not None and of.url]
        there_are = ", ".join(models) or "none"
        raise NotConfigured(f"no branch {branch!r} asks a language model; there are: {there_are}")
    manifest = existing(installation, namespace).manifest
    if manifest is not None and manifest.local_only:
        raise NotConfigured(f"the namespace {namespace!r} is local_only, and the model is behind an address")
    documents = resources.store(resources.written_stores[0])
    chat, judge = options.open_chat(), f"{LLM}:{options.model}"
    graded, failures = 0, []
    with trail() as engine:
        hits = store.ungraded_hits(engine, namespace, NEWEST, judge)[:limit]
        for some in in_batches(hits, AT_ONCE):
            texts = documents.texts(namespace, [hit.passage_id for hit in some], timeout_s=READ_S)
            there = [hit for hit in some if hit.passage_id in texts]
            pairs = [(hit.question.text or "", texts[hit.passage_id].text) for hit in there]
            now_ms = time.time_ns() // 1_000_000
            feedback = []
            for hit, answer in zip(there, ask_grades(chat, pairs, timeout_s=GRADING_S), strict=True):
                if isinstance(answer, StageFailure):
                    failures.append(f"{answer.reason}: {answer.detail}")
                    continue
                event = Event(
                    request_id=hit.question.request_id,
                    question=hit.question.question,
                    action="grade",
                    document_id=hit.document_id,
                    grade=answer,
                    rank=hit.rank,
                )
                feedback.append(Feedback.on(hit.question, event, now_ms, judge, LLM))
            failures += ["the passage is not there any more"] * (len(some) - len(there))
            store.put(engine, feedback)
            graded += len(feedback)
            if there and not feedback:
                break
    fields = {"graded": graded, "not_graded": len(hits) - graded}
    print_result(
        fields, f"{counted(graded, 'hit')} of {namespace}: graded by {options.model}", as_json=as_json
    )
    if failures:
        print_line(
            f"chorale: {counted(len(hits) - graded, 'hit')} not graded, the first: {failures[0]}", sys.stderr
        )
        raise typer.Exit(PART_DONE)


@judgements.command()
def sample(
    namespace: Namespace = "default",
    per_grade: Annotated[int, typer.Option(min=1, help="Hits of each grade of the model.")] = 10,
) -> None:
    """Print hits that a language model graded and nobody else judged, without its grades: for people, to check the model.

    Fill in `grade` (0 to 3) in each line and import the file; `stats` then says how well the model agrees.

    Examples:

        chorale judgements sample --namespace docs --per-grade 5 > check.jsonl
    """
    from json import dumps

    from cli.audit.trail import trail
    from config.visible_text import visible_json
    from records.judgements import store
    from records.judgements.language_model import to_check

    with trail() as engine:
        hits = to_check(store.listed(engine, namespace), per_grade)
    for hit in hits:
        line = {
            "user_query": hit.text,
            "grade": None,
            "query_id": hit.request_id,
            "action_name": "grade",
            "event_attributes": {"question": hit.question, "object": {"object_id": hit.object_id}},
        }
        print_line(visible_json(dumps(line, ensure_ascii=False)))


@judgements.command()
def stats(namespace: Namespace = "default", as_json: AsJson = False) -> None:
    """Count events by source and action, and judged questions and hits.

    A document that nobody judged counts as unjudged, and never as grade 0.
    """
    from dataclasses import asdict

    from cli.audit.trail import trail
    from records.audit.queries import Which
    from records.judgements import store
    from records.judgements.language_model import agreement

    with trail() as engine:
        events = store.counts(engine, namespace)
        coverage = store.coverage(engine, Which(namespace=namespace), NEWEST)
        agreed = agreement(store.listed(engine, namespace))
    share = store.judged_share(coverage)
    table = plain_table("source", "action", ">events")
    for source, by_action in events.items():
        for action, count in by_action.items():
            table.add_row(source, action, f"{count:,}")
    of = {name: "{judged:,} of {all:,}".format_map(figures) for name, figures in share.items()}
    sentence = f"\njudged of the newest: {of['questions']} questions, {of['hits']} first hits"
    if agreed.hits:
        kappa = "" if agreed.kappa is None else f", weighted kappa {agreed.kappa:.2f}"
        sentence += f"\nlanguage models and people agree on {agreed.equal:,} of {agreed.hits:,} hits{kappa}"
    print_result({"events": events, **share, "agreement": asdict(agreed)}, table, sentence, as_json=as_json)
