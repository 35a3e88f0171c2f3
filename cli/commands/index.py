"""`chorale index`: index files and folders into a namespace."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cli.exit_codes import PART_DONE
from cli.indexing.view import report_fields, report_line, show_omitted
from cli.installation import Installation, find_installation
from cli.namespace_states import analysed_language, check_namespace, known, language_lines, order_of
from cli.options import AsJson, EncoderName, Namespace
from cli.terminal import Text, counted, print_result, stderr, stdout
from models.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cli.progress import ProgressBar
    from tasks.indexing.indexing_run import IndexReport, SourceDocuments


def index(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders.")],
    namespace: Namespace = "default",
    source: Annotated[
        str | None,
        typer.Option(
            help="Name of the documents' source, the first part of their ids; by default the folder's or file's name."
        ),
    ] = None,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Delete the documents of this source that are no longer in the files."),
    ] = False,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild",
            help="Build the namespace again with the present settings; searches use the old index meanwhile.",
        ),
    ] = False,
    encoder: EncoderName = None,
    language: Annotated[
        str | None,
        typer.Option(
            help="Of the texts of a new namespace, or with --rebuild, for BM25: ISO 639-1 or `none`; by default "
            "CHORALE_LANGUAGE, else that of the first documents."
        ),
    ] = None,
    ids: Annotated[
        Literal["path", "given"],
        typer.Option(
            help="Ids of the records of a file: the file's path and the record's id, or this id alone."
        ),
    ] = "path",
    map_: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="OURS=THEIRS",
            help="Take our field OURS from the field THEIRS of the files; may be given again.",
        ),
    ] = None,
    follow_links: Annotated[
        bool,
        typer.Option(
            "--follow-links", help="Follow symbolic links that lead to a place inside the given folder."
        ),
    ] = False,
    hidden_text: Annotated[
        bool,
        typer.Option("--hidden-text", help="Index also text that a person who opens the file does not see."),
    ] = False,
    where: Annotated[
        Literal["workers", "here"] | None,
        typer.Option(
            help="Which processes split, embed and write: the workers of chorale.index, or this one. The default is this "
            "process for --rebuild and with the embedded store alone, and otherwise the workers."
        ),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", "-y", help="Rebuild without asking, although the documents of other sources are lost."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Index text, Markdown, reStructuredText, HTML, CSV, JSON, JSON lines (PDF after `make pdf`, Office after `make office`).

    Symbolic links are followed only with `--follow-links`. A file that takes too much time or memory is left out (settings
    CHORALE_READ_TIME_S, CHORALE_READ_MEMORY_MB and CHORALE_READ_OUTPUT_MB).

    Only new and changed documents are written, each as a whole. You may interrupt the command at any moment and
    repeat it. Searches find each batch as soon as it is written. On one machine no other process has to run.

    Fields that `--map` takes: id, title, text, source_type, published_at, language, url, parent.

    Text that a person does not see is left out, unless --hidden-text is given.

    The report names what is left out, by reason (docs/guides/documents.md). Documents of deleted files stay, unless
    --prune is given.

    Exit code: 0 all is indexed (hidden names, links and empty files do not count), 8 only a part, 2 wrong usage,
    1 anything else.

    Examples:

        chorale index ~/docs

        chorale index ~/law/statutes --namespace law --source statutes --prune

        chorale index faq.csv -n law --map text=answer --map title=question --map published_at=date

        chorale index ~/docs --rebuild

        chorale index ~/lover --rebuild --language no
    """
    from cli.indexing.by_workers import index_by_workers
    from cli.indexing.sent_messages import index_queue
    from cli.progress import ProgressBar
    from tasks.indexing.namespace_writer import create_namespace

    check_namespace(namespace)
    fields = _fields(map_ or ())
    if rebuild and where == "workers":
        raise typer.BadParameter(
            "a namespace is rebuilt by one process: leave one of both out", param_hint="--where"
        )
    installation = find_installation().cell_of(namespace)
    # SIGTERM, an orderly `kill`, is reported as an interruption like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began_s = time.monotonic()
    is_on_servers = not installation.resources.is_on_one_machine
    by_workers = where == "workers" or (where is None and not rebuild and is_on_servers)
    try:
        with ProgressBar(stderr()) as bar:
            bar.say("counting the documents")
            documents = _documents(
                installation,
                paths,
                source,
                prune=prune,
                ids=ids,
                fields=fields,
                follows_links=follow_links,
                hidden_text=hidden_text,
            )
            if by_workers:
                if (trouble := index_queue(installation).trouble) is not None:
                    raise trouble
                if encoder is not None or language is not None:
                    create_namespace(installation.resources, namespace, encoder, language=language)
                bar.say(f"indexing into {namespace}", total=documents.total)
                report = index_by_workers(
                    installation,
                    documents,
                    namespace=namespace,
                    progress=bar.show_indexing,
                    say=bar.write_line,
                )
            else:
                report = _index_here(
                    installation,
                    documents,
                    namespace,
                    bar,
                    rebuild=rebuild,
                    encoder=encoder,
                    language=language,
                    yes=yes,
                )
    except KeyboardInterrupt:
        _say_interrupted(by_workers=by_workers, rebuild=rebuild)
        raise typer.Exit(PART_DONE) from None
    took_s = time.monotonic() - began_s
    analysed = analysed_language(installation, namespace)
    named = {"namespace": namespace, "source": documents.source, "language": analysed}
    print_result(
        {**named, **report_fields(report), "took_s": round(took_s, 3)},
        report_line(report, namespace, documents.source, analysed, took_s),
        as_json=as_json,
    )
    for line in [] if as_json else language_lines(installation, namespace):
        stderr().print(Text(line, style="yellow"), soft_wrap=True)
    if report.has_faults or not as_json:
        show_omitted(report, "this folder" if len(paths) == 1 and paths[0].is_dir() else "these files")
    if report.has_faults:
        raise typer.Exit(PART_DONE)
    if not as_json and not report.skipped and not (report.added + report.replaced + report.unchanged):
        stdout().print("there was nothing to read")


def _documents(
    installation: Installation,
    paths: Sequence[Path],
    source: str | None,
    *,
    prune: bool,
    follows_links: bool,
    **options: Any,
) -> SourceDocuments:
    """The `options` are those of `read_documents`.  Raises BadParameter."""
    from ingest.document_ids import checked_source, default_source
    from ingest.read import estimated_documents, read_documents
    from tasks.indexing.indexing_run import SourceDocuments

    try:
        items = read_documents(
            paths,
            source=source,
            follows_links=follows_links,
            **options,
            limits=installation.resources.read_limits,
        )
    except (ValueError, FileNotFoundError) as error:
        raise typer.BadParameter(str(error)) from None
    name = checked_source(source) if source else default_source(paths[0])
    total = estimated_documents(paths, follows_links=follows_links)
    return SourceDocuments(items, name, prune=prune, total=total)


def _index_here(
    installation: Installation,
    documents: SourceDocuments,
    namespace: str,
    bar: ProgressBar,
    *,
    rebuild: bool,
    encoder: str | None,
    language: str | None,
    yes: bool,
) -> IndexReport:
    """Index in this process; raises ServiceError where a rebuild would delete documents of other sources."""
    from tasks.indexing.namespace_writer import encoder_of, index_corpus

    resources, source = installation.resources, documents.source
    store = resources.writing_store
    if rebuild:
        if (damaged := store.set_aside_damaged_file()) is not None:
            bar.say(
                f"the documents were damaged and are now in {damaged}: index the other namespaces again too"
            )
        state = None if yes else known(store, namespace)
        if state and (others := state.documents - len(store.revisions(namespace, source))):
            raise ServiceError(
                f"--rebuild drops namespace {namespace!r} with {counted(others, 'document')} of other sources than "
                f"{source!r}: add --yes, and index them again afterwards"
            )
    bar.say("reading the model")
    encoder_of(resources, namespace, encoder).indexing.warm()
    bar.say(f"indexing into {namespace}", total=documents.total)
    return index_corpus(
        resources,
        documents,
        namespace=namespace,
        encoder=encoder,
        language=language,
        rebuild=rebuild,
        progress=bar.show_indexing,
        order=order_of(installation, namespace),
    )


def _say_interrupted(*, by_workers: bool, rebuild: bool) -> None:
    if by_workers:
        state = "what was sent stays with the workers"
    elif rebuild:
        state = "what was committed stays"
    else:
        state = "what was committed stays and can be searched"
    stderr().print(f"interrupted: {state}; the same command goes on from there")


def _fields(pairs: Sequence[str]) -> Mapping[str, str]:
    """Theirs by ours, from `OURS=THEIRS`; raises BadParameter."""
    fields: dict[str, str] = {}
    for pair in pairs:
        ours, equals, theirs = pair.partition("=")
        if not (ours.strip() and equals and theirs.strip()):
            raise typer.BadParameter(
                f"{pair!r} is not OURS=THEIRS, as in source_type=kind", param_hint="--map"
            )
        fields[ours.strip()] = theirs.strip()
    return fields
