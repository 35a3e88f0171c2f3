"""`chorale golden`: asks questions whose answers are known, and fails where an answer has become worse."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

from cli.options import AsJson, Configuration, QuestionNamespace
from cli.output import print_json
from cli.terminal import Text, counted, stderr, stdout

if TYPE_CHECKING:
    from evaluation.judged.golden import Verdict
    from tasks.indexing.indexing_run import SourceDocuments
    from tasks.wiring.resources import Resources

MOST_LISTED = 3
"""Documents that are named of an answer that failed."""


def golden(
    file: Annotated[Path, typer.Argument(help="YAML or JSON lines with `question` and `expected`.")],
    namespace: QuestionNamespace = "default",
    documents: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Index the documents of this folder or file into a namespace of its own, ask every question there, and "
            "delete the namespace at the end.",
        ),
    ] = None,
    configuration: Configuration = None,
    top: Annotated[
        int, typer.Option(min=1, max=10, help="An expected document must be among this many first hits.")
    ] = 5,
    abstain: Annotated[
        float, typer.Option(min=0, max=1, help="An answer with a lower confidence abstains.")
    ] = 0.5,
    may_fail: Annotated[int, typer.Option(min=0, help="How many questions may fail.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Ask questions whose answers are known, and show where an expected document is missing.

    A question passes if one of its documents is among the first hits, or if nothing answers it and the answer
    says so (`abstained`). The questions go through the running pipeline; where none runs, one is started for
    this command.

    Exit code: 0 all passed, 9 more failed than may fail, 3 some answer was degraded, 2 wrong usage, 1 anything else.

    Examples:

        chorale golden questions.yaml --namespace docs --may-fail 2

        chorale golden questions.yaml --documents ./handbook
    """
    from chorale_client.wire_names import Status

    from cli.exit_codes import BY_STATUS, GOLDEN_FAILED
    from cli.installation import find_installation
    from cli.local.measured_pipeline import measured_pipeline
    from cli.progress import question_bar
    from evaluation.judged.golden import figures, judge, read_golden
    from tasks.wiring.pipeline import load_pipeline

    questions = read_golden(file)
    source = None
    if documents is not None:
        if namespace != "default":
            raise typer.BadParameter("the documents get a namespace of their own", param_hint="--namespace")
        source = _documents(documents)
        questions = [replace(question, namespace=None) for question in questions]
        # SIGTERM, an orderly `kill`, deletes the namespace as Ctrl-C does.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings = find_installation().settings
    pipeline = load_pipeline(settings.pipeline_file)
    with (
        measured_pipeline(settings, pipeline) as measured,
        nullcontext(namespace) if source is None else _own_namespace(measured.resources, source) as searched,
        question_bar(stderr(), len(questions)) as progress,
    ):
        verdicts = judge(
            questions,
            ask=measured.client.ask,
            top=top,
            progress=lambda: progress("golden", 1),
            namespace=searched,
            configuration=configuration,
            abstain=abstain,
        )
    failed = sum(not verdict.passed for verdict in verdicts)
    if as_json:
        means = {name: round(value, 4) for name, value in figures(verdicts).items()}
        print_json(
            {
                "questions": len(verdicts),
                "failed": failed,
                **means,
                "verdicts": [v.to_wire() for v in verdicts],
            }
        )
    else:
        _show(verdicts, top)
    if any(verdict.missing for verdict in verdicts):
        measured.lines.show()
        raise typer.Exit(BY_STATUS[Status.DEGRADED])
    if failed > may_fail:
        raise typer.Exit(GOLDEN_FAILED)


def _documents(path: Path) -> SourceDocuments:
    """Raises BadParameter."""
    from ingest.document_ids import default_source
    from ingest.read import read_documents
    from tasks.indexing.indexing_run import SourceDocuments

    try:
        return SourceDocuments(read_documents([path]), default_source(path))
    except (ValueError, FileNotFoundError) as error:
        raise typer.BadParameter(str(error), param_hint="--documents") from None


@contextmanager
def _own_namespace(resources: Resources, documents: SourceDocuments) -> Iterator[str]:
    """A new namespace with these documents, which is deleted at the end of the block; raises ServiceError."""
    from cli.indexing.view import show_omitted
    from models.errors import ServiceError, UnknownNamespace
    from tasks.indexing.namespace_writer import drop_namespace, index_corpus

    namespace = f"golden-{uuid4().hex[:12]}"
    try:
        report = index_corpus(resources, documents, namespace=namespace)
        show_omitted(report, "these documents")
        if not report.added:
            raise ServiceError("--documents: there is no document to index")
        yield namespace
    finally:
        with suppress(UnknownNamespace):
            drop_namespace(resources, namespace)


def _show(verdicts: Sequence[Verdict], top: int) -> None:
    from evaluation.judged.golden import figures

    console = stdout()
    answerable = [verdict for verdict in verdicts if verdict.question.expected]
    others = [verdict for verdict in verdicts if not verdict.question.expected]
    for verdict in verdicts:
        if not verdict.passed or verdict.missing:
            for line in _lines_of(verdict):
                console.print(Text(line), soft_wrap=True)
            console.print()
    if answerable:
        means = "  ".join(f"{name} {value:.3f}" for name, value in figures(verdicts).items())
        passed = sum(verdict.passed for verdict in answerable)
        count = counted(len(answerable), "question")
        console.print(f"{passed} of {count}: an expected document is among the first {top}  {means}")
    if wrongly := sum(verdict.abstained for verdict in answerable):
        console.print(f"{wrongly} of these answers abstain all the same")
    if others:
        passed, count = sum(verdict.passed for verdict in others), counted(len(others), "question")
        console.print(f"{passed} of {count} that nothing answers: the answer abstains")


def _lines_of(verdict: Verdict) -> Iterator[str]:
    question = verdict.question
    yield f"line {question.line}: {question.text}"
    if verdict.missing:
        yield f"  missing   {verdict.missing}"
    for place in verdict.placements:
        ranks = ", ".join(f"{name} {rank}" for name, rank in place.branches.items()) or "no branch found it"
        where = "not among the first 100" if place.rank is None else f"rank {place.rank} ({ranks})"
        yield f"  expected  {place.document_id}: {where}"
    if not question.expected and not verdict.passed:
        yield f"  expected  no answer; confidence {verdict.confidence}, not abstained"
    yield f"  first     {', '.join(verdict.ranked[:MOST_LISTED]) or 'nothing'}"
