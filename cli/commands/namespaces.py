"""`chorale namespaces`: list, show, create, rebuild, deactivate and delete namespaces."""

from __future__ import annotations

import signal
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from cli.installation import find_installation
from cli.namespace_states import (
    existing,
    known,
    namespace_fields,
    namespaces_table,
    order_of,
    publish,
    published,
    unread_file_lines,
)
from cli.options import AsJson, EncoderName, Yes, command_group, confirm_deletion
from cli.progress import ProgressBar, working_bar
from cli.terminal import counted, facts_table, print_result, stderr
from models.errors import NotConfigured, ServiceError, StageFailure

if TYPE_CHECKING:
    from cli.installation import Installation
    from models.documents import NamespaceState

namespaces = command_group("List, show, create, rebuild, deactivate and delete namespaces.")

Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME")]


@namespaces.command("list")
def list_(
    n: Annotated[
        int, typer.Argument(metavar="[N]", min=1, max=100_000, help="Number of namespaces.")
    ] = 1_000,
    after: Annotated[str, typer.Option(metavar="NAME", help="Begin after this name.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the namespaces by name, with their counts and corpus generation."""
    installation = find_installation(has_structlog=False)
    following = installation.corpus.namespaces(after=after, limit=n + 1)
    states, has_more = following[:n], len(following) > n
    in_redis = published(installation, [state.name for state in states])
    rows = [namespace_fields(state, in_redis.get(state.name)) for state in states]
    table = namespaces_table(rows, has_redis=installation.redis is not None)
    none = "there are no namespaces yet: `chorale index PATH… --namespace NAME` makes one"
    more = [f"there are more: `chorale namespaces list --after {states[-1].name}`"] if has_more else []
    if not rows:
        more += unread_file_lines(installation)
    fields = {"namespaces": rows, "has_more": has_more}
    print_result(fields, table if rows else none, *more, as_json=as_json)


@namespaces.command()
def show(namespace: Name, as_json: AsJson = False) -> None:
    """Show what a namespace holds and what it was built with."""
    installation = find_installation()
    state = existing(installation, namespace)
    in_redis = published(installation, [namespace]).get(namespace)
    facts = {name: f"{getattr(state, name):,}" for name in ("documents", "passages", "generation")}
    if installation.redis is not None:
        facts["… as Redis has it"] = "not copied" if in_redis is None else f"{in_redis:,}"
    manifest = asdict(state.manifest) if state.manifest else {}
    facts |= {
        name.replace("_", " "): _in_words(value)
        for name, value in manifest.items()
        if value not in (None, {}, (), [])
    }
    print_result(namespace_fields(state, in_redis), facts_table(facts), as_json=as_json)


def _in_words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


@namespaces.command()
def create(
    namespace: Name,
    encoder: EncoderName = None,
    language: Annotated[
        str | None,
        typer.Option(
            help="Of its texts, for BM25: ISO 639-1 or `none`; by default CHORALE_LANGUAGE, else `en`."
        ),
    ] = None,
    local_only: Annotated[
        bool, typer.Option("--local-only", help="Never send its texts to a model behind an address.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make an empty namespace with the present settings, in every store; an existing one stays as it is.

    `chorale index` makes namespaces too: use this command for one that must exist before, or that needs an option of
    this command.

    Examples:

        chorale namespaces create drafts

        chorale namespaces create statuti --encoder e5 --language it

        chorale namespaces create patients --local-only
    """
    from tasks.indexing.namespace_writer import create_namespace

    resources = find_installation().resources
    store = resources.writing_store
    before = known(store, namespace)
    create_namespace(resources, namespace, encoder, language=language, local_only=local_only)
    with store.exclusive(namespace):
        # Readers may remember the generation of a deleted namespace of that name.
        resources.generations.rise_beyond(namespace)
        publish(resources, namespace)
    outcome = f"there already, with {counted(before.documents, 'document')}" if before else "made"
    print_result(
        {"namespace": namespace, "created": before is None}, f"{namespace}: {outcome}", as_json=as_json
    )


@namespaces.command()
def rebuild(
    namespace: Name,
    encoder: EncoderName = None,
    stores: Annotated[
        list[str] | None,
        typer.Option(
            "--store",
            help="Move it to this store of the pipeline file, with its vectors as they are; may be repeated.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Embed the documents of a namespace again, or move it to another store; searches use the old index until the end.

    The texts come from the documents' database: no file is read. You may interrupt the command and repeat it: it
    continues. Documents that are handed in while it embeds wait; while it moves, they are written. A move is given up by
    moving the namespace to the store that still has it.

    Examples:

        chorale namespaces rebuild law --encoder e5

        chorale namespaces rebuild law --store postgresql
    """
    from tasks.indexing.embedding_anew import embed_anew

    if stores and encoder:
        raise typer.BadParameter("embed and move one after the other", param_hint="--store and --encoder")
    installation = find_installation()
    state = existing(installation, namespace)
    # SIGTERM, an orderly `kill`, is reported as an interruption like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if stores:
        _move(installation, state, stores, as_json=as_json)
        return
    with ProgressBar(stderr(), f"embedding {namespace}", total=state.documents) as bar:
        report = embed_anew(installation.resources, namespace, encoder=encoder, progress=bar.show_indexing)
    now = existing(installation, namespace).manifest
    name = now.encoder if now else ""
    rebuilt = f"{counted(state.documents, 'document')}, {counted(report.passages, 'passage')} embedded"
    fields = {
        "namespace": namespace,
        "encoder": name,
        "passages": report.passages,
        "unwritten": report.unwritten,
    }
    print_result(fields, f"{namespace}: built again with the encoder {name!r}: {rebuilt}", as_json=as_json)


def _move(installation: Installation, state: NamespaceState, stores: list[str], *, as_json: bool) -> None:
    from cli.doctor.reports import declarations
    from tasks.indexing.moving import move_namespace

    has = state.manifest.stores if state.manifest else ()
    # Every process knows the stores that have the namespace: a move may be given up.
    if installation.redis is not None and not set(stores) <= set(has):
        for finding in declarations(installation):
            raise NotConfigured(f"{finding.what}; {finding.mend}")
    with ProgressBar(stderr(), f"moving {state.name}", total=state.documents) as bar:
        generation = move_namespace(
            installation.resources,
            state.name,
            stores,
            progress=lambda remaining: bar.show(max(0, state.documents - remaining)),
        )
    fields = {"namespace": state.name, "stores": stores, "generation": generation}
    moved = f"{state.name}: served by {', '.join(stores)}, with {counted(state.documents, 'document')}"
    print_result(fields, moved, as_json=as_json)


@namespaces.command()
def delete(namespace: Name, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a namespace with everything in it."""
    from tasks.indexing.namespace_writer import drop_namespace

    installation = find_installation()
    state = existing(installation, namespace)
    documents = counted(state.documents, "document")
    if not yes:
        confirm_deletion(documents, f"Delete {namespace} with {documents}?", as_json=as_json)
    try:
        with working_bar(f"deleting {namespace}"):
            drop_namespace(installation.resources, namespace, order_of(installation, namespace))
    except StageFailure as error:
        raise ServiceError(
            f"{error}; other stores may have deleted their part of {namespace!r}: when that is mended, run this again"
        ) from error
    sentence = f"{namespace}: deleted, with {documents}"
    print_result({"namespace": namespace, "deleted": state.documents}, sentence, as_json=as_json)


@namespaces.command()
def deactivate(namespace: Name, as_json: AsJson = False) -> None:
    """Let stores close a namespace that is seldom searched; the next request opens it again, and takes a little longer."""
    from models.errors import NotConfigured

    installation = find_installation()
    existing(installation, namespace)
    stores = {name: installation.resources.store(name) for name in installation.resources.written_stores}
    closing = {name: store.deactivate for name, store in stores.items() if hasattr(store, "deactivate")}
    if not closing:
        kinds = ", ".join(f"{name} ({installation.pipeline.stores[name].kind})" for name in stores)
        raise NotConfigured(f"no store here can close namespaces (kind weaviate can); there are: {kinds}")
    for deactivate_in_store in closing.values():
        deactivate_in_store(namespace)
    sentence = f"{namespace}: closed in {', '.join(closing)}"
    print_result({"namespace": namespace, "stores": list(closing)}, sentence, as_json=as_json)
