"""`chorale index`: files and folders into a namespace, as its one writer."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from models.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cli.installation import Installation
    from tasks.indexing.run import IndexReport

SHOWN_FAULTS = 20


class OtherSources(ServiceError):
    """A rebuild would lose documents that this run does not bring back."""


def index(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Where to.")] = "default",
    source: Annotated[
        str | None,
        typer.Option(
            help="Name of where they come from, the first part of their ids; the folder's or file's own."
        ),
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete this source's documents that are not there any more.")
    ] = False,
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="Drop the namespace first, and build it with the present settings."),
    ] = False,
    ids: Annotated[
        Literal["path", "given"],
        typer.Option(help="Ids of the records of a collection: below the file's path, or as they stand."),
    ] = "path",
    map_: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="OURS=THEIRS", help="What the files call a field; may be given again."),
    ] = None,
    where: Annotated[
        Literal["workers", "here"] | None,
        typer.Option(
            help="Who splits, embeds and writes: the workers of chorale.index, or this process. By default the workers "
            "where documents go into servers, and this process for --rebuild and on one machine."
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Rebuild although other sources' documents are lost.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one JSON document.")] = False,
) -> None:
    """Index text, Markdown, reStructuredText, HTML, CSV, JSON lines (and PDF, with `make pdf`).

    What has not changed is skipped, what has is replaced whole. It may be interrupted at any moment and
    repeated. Readers see every batch as soon as it is committed. On one machine nothing else has to run.

    Fields that `--map` takes: id, title, text, source_type, published_at, language, url, parent.

    Exit code: 0 all of it, 8 part of it (what could not be read is listed), 2 wrong usage, 1 anything else.

    Examples:

        chorale index ~/docs

        chorale index ~/law/statutes --namespace law --source statutes --prune

        chorale index faq.csv -n law --map text=answer --map title=question --map published_at=date

        chorale index ~/docs --rebuild
    """
    from cli.exit_codes import PART_DONE
    from cli.indexing.one_writer import check_namespace
    from cli.installation import find_installation
    from cli.terminal import stderr, stdout
    from ingest.document_ids import checked_source, default_source
    from ingest.read import read_documents
    from search.protocol import BuildsBeside

    check_namespace(namespace)
    fields = _fields(map_ or ())
    if rebuild and where == "workers":
        raise typer.BadParameter(
            "a namespace is rebuilt by one process: leave one of both out", param_hint="--where"
        )
    try:
        items = read_documents(paths, source=source, ids=ids, fields=fields)
    except (ValueError, FileNotFoundError) as error:
        raise typer.BadParameter(str(error)) from None
    named = checked_source(source) if source else default_source(paths[0])
    around = find_installation()
    # An orderly `kill` is an interruption too, and says that it goes on from there.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began_s = time.monotonic()
    by_workers = where == "workers" or (where is None and not rebuild and around.resources.has_document_table)
    try:
        if by_workers:
            report = _hand_over(around, items, paths, namespace=namespace, source=named, prune=prune)
        else:
            report = _index(
                around, items, paths, namespace=namespace, source=named, prune=prune, rebuild=rebuild, yes=yes
            )
    except KeyboardInterrupt:
        is_beside = isinstance(around.resources.writing_store, BuildsBeside)
        again = "the same command without --rebuild" if rebuild and not is_beside else "the same command"
        if by_workers:
            said = "what was sent stays with the workers"
        elif rebuild and is_beside:
            said = "what was committed stays"
        else:
            said = "what was committed stays and can be searched"
        stderr().print(f"interrupted: {said}; {again} goes on from there")
        raise typer.Exit(PART_DONE) from None
    took_s = time.monotonic() - began_s
    if as_json:
        print(json.dumps(_wire(report, namespace, named, took_s), ensure_ascii=False))
    else:
        _show(report, namespace, named, took_s)
    if report.has_faults:
        _show_faults(report)
        raise typer.Exit(PART_DONE)
    if not as_json and not report.skipped and not (report.added + report.replaced + report.unchanged):
        stdout().print("there was nothing to read")


def _index(
    around: Installation,
    items: Any,
    paths: Sequence[Path],
    *,
    namespace: str,
    source: str,
    prune: bool,
    rebuild: bool,
    yes: bool,
) -> IndexReport:
    from cli.indexing.one_writer import known, order_of
    from cli.terminal import stderr
    from cli.views.indexing_bar import IndexingBar
    from ingest.read import estimated_documents
    from tasks.indexing.namespace_writer import index_corpus, make_room

    resources = around.resources
    store = resources.writing_store
    with IndexingBar(stderr()) as bar:
        if rebuild:
            if (kept := make_room(store)) is not None:
                bar.say(f"the corpus was damaged and is now {kept}: index its other namespaces again too")
            if not yes and (state := known(store, namespace)) is not None:
                _check_sources(state.documents - len(store.revisions(namespace, source)), namespace, source)
        bar.say("looking at the files")
        total = estimated_documents(paths)
        bar.say("reading the model")
        resources.embedder.warm()
        bar.say(f"indexing into {namespace}", total=total)
        return index_corpus(
            resources,
            items,
            namespace=namespace,
            source=source,
            prune=prune,
            rebuild=rebuild,
            progress=lambda so_far: bar.show(so_far, total),
            total_documents=total,
            order=order_of(around, namespace),
        )


def _check_sources(others: int, namespace: str, source: str) -> None:
    from cli.terminal import counted

    if others:
        raise OtherSources(
            f"--rebuild drops namespace {namespace!r} with {counted(others, 'document')} of other sources than "
            f"{source!r}: add --yes, and index them again afterwards"
        )


def _hand_over(
    around: Installation, items: Any, paths: Sequence[Path], *, namespace: str, source: str, prune: bool
) -> IndexReport:
    from cli.indexing.by_workers import index_by_workers
    from cli.terminal import stderr
    from cli.views.indexing_bar import IndexingBar
    from ingest.read import estimated_documents

    with IndexingBar(stderr()) as bar:
        bar.say("looking at the files")
        total = estimated_documents(paths)
        bar.say(f"indexing into {namespace}", total=total)
        return index_by_workers(
            around,
            items,
            namespace=namespace,
            source=source,
            prune=prune,
            progress=lambda so_far: bar.show(so_far, total),
            total_documents=total,
            say=bar.tell,
        )


def _fields(given: Sequence[str]) -> Mapping[str, str]:
    fields: dict[str, str] = {}
    for pair in given:
        ours, equals, theirs = pair.partition("=")
        if not (ours.strip() and equals and theirs.strip()):
            raise typer.BadParameter(
                f"{pair!r} is not OURS=THEIRS, as in source_type=kind", param_hint="--map"
            )
        fields[ours.strip()] = theirs.strip()
    return fields


def _wire(report: IndexReport, namespace: str, source: str, took_s: float) -> dict[str, Any]:
    from chorale_client.words import WIRE_VERSION

    from tasks.indexing.run import skipped_to_wire

    return {
        "v": WIRE_VERSION,
        "namespace": namespace,
        "source": source,
        "added": report.added,
        "replaced": report.replaced,
        "unchanged": report.unchanged,
        "deleted": report.deleted,
        "spared": report.spared,
        "passages": report.passages,
        "generation": report.generation,
        "took_s": round(took_s, 3),
        "skipped": [skipped_to_wire(one) for one in report.skipped],
        **({"unwritten": report.unwritten} if report.unwritten else {}),
    }


def _show(report: IndexReport, namespace: str, source: str, took_s: float) -> None:
    from rich.text import Text

    from cli.terminal import counted, stdout

    counts = [
        f"{count:,} {what}"
        for what in ("added", "replaced", "unchanged", "deleted")
        if (count := getattr(report, what)) or what == "added"
    ]
    ignored = sum(not one.is_fault for one in report.skipped)
    facts = [counted(report.passages, "passage"), f"generation {report.generation}", f"{took_s:.1f} s"]
    if ignored:
        facts.append(f"{counted(ignored, 'file')} not for indexing")
    stdout().print(
        Text.assemble(
            (namespace, "bold"), f" ← {source}: {', '.join(counts)}", (" · " + " · ".join(facts), "dim")
        )
    )


def _show_faults(report: IndexReport) -> None:
    from cli.terminal import counted, stderr

    _list("this could not be read:", [str(one) for one in report.skipped if one.is_fault])
    _list(
        "not in every store yet; the next run, or `chorale verify`, writes them again:",
        [f"{document_id}: {why}" for document_id, why in report.unwritten.items()],
    )
    if report.spared:
        stderr().print(f"not pruned, since they may still be in there: {counted(report.spared, 'document')}")


def _list(heading: str, lines: Sequence[str]) -> None:
    from rich.text import Text

    from cli.terminal import stderr

    if not lines:
        return
    console = stderr()
    console.print(Text(heading, "yellow"))
    for line in lines[:SHOWN_FAULTS]:
        console.print(Text(f"  {line}"), soft_wrap=True)
    if len(lines) > SHOWN_FAULTS:
        console.print(f"  … and {len(lines) - SHOWN_FAULTS:,} more; --json lists them all")
