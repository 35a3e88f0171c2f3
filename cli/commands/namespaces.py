"""`chorale namespaces`: which there are, what one was built with, making, closing and deleting one."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.monitoring.generations import published
from models.errors import ServiceError, StageFailure

if TYPE_CHECKING:
    from cli.installation import Installation
    from models.documents import NamespaceState

namespaces = typer.Typer(
    name="namespaces",
    help="List, show, create, deactivate and delete namespaces.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


class DeletedInPart(ServiceError):
    """A store did not delete its part of a namespace."""


@namespaces.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the namespaces with their counts and corpus generation.

    Examples:

        chorale namespaces list

        chorale namespaces list --json
    """
    from chorale_client.words import WIRE_VERSION

    from cli.installation import find_installation
    from cli.terminal import stdout

    around = find_installation()
    states = around.resources.writing_store.namespaces()
    copies = published(around, [state.name for state in states])
    if as_json:
        listed = [wire(state, copies.get(state.name)) for state in states]
        print(json.dumps({"v": WIRE_VERSION, "namespaces": listed}))
    elif states:
        stdout().print(table(states, copies if around.redis is not None else None))
    else:
        stdout().print("there are no namespaces yet: `chorale index PATH… --namespace NAME` makes one")


@namespaces.command()
def show(namespace: Annotated[str, typer.Argument(metavar="NAME")], as_json: AsJson = False) -> None:
    """Show what a namespace holds and what it was built with.

    Examples:

        chorale namespaces show law
    """
    from chorale_client.words import WIRE_VERSION

    from cli.installation import find_installation
    from cli.terminal import plain_table, stdout

    around = find_installation()
    state = _known(around, namespace)
    copy = published(around, [namespace]).get(namespace)
    if as_json:
        print(json.dumps({"v": WIRE_VERSION, **wire(state, copy)}))
        return
    grid = plain_table("", "")
    grid.show_header = False
    grid.columns[0].style = "dim"
    grid.add_row("documents", f"{state.documents:,}")
    grid.add_row("passages", f"{state.passages:,}")
    grid.add_row("generation", f"{state.generation:,}")
    if around.redis is not None:
        grid.add_row("… as Redis has it", "not copied" if copy is None else f"{copy:,}")
    for name, value in (asdict(state.manifest) if state.manifest else {}).items():
        grid.add_row(name.replace("_", " "), str(value))
    stdout().print(grid)


@namespaces.command()
def create(namespace: Annotated[str, typer.Argument(metavar="NAME")], as_json: AsJson = False) -> None:
    """Make an empty namespace with the present settings, in every store; one that is there already stays as it is.

    Indexing makes the namespaces that it needs: this is for one that is to be searched, or deleted, before that.

    Examples:

        chorale namespaces create drafts

        chorale namespaces create drafts --json
    """
    from chorale_client.words import WIRE_VERSION

    from cli.indexing.one_writer import known, publish
    from cli.installation import find_installation
    from cli.terminal import counted, stdout
    from tasks.indexing.namespace_writer import manifest_for

    resources = find_installation().resources
    store = resources.writing_store
    before = known(store, namespace)
    store.create(namespace, manifest_for(resources, resources.embedder))
    with store.exclusive(namespace):
        # Readers may have been told of one of that name.
        resources.rise_beyond(namespace)
        publish(resources, namespace)
    if as_json:
        print(json.dumps({"v": WIRE_VERSION, "namespace": namespace, "created": before is None}))
    elif before is None:
        stdout().print(f"{namespace}: made")
    else:
        stdout().print(f"{namespace}: there already, with {counted(before.documents, 'document')}")


@namespaces.command()
def delete(
    namespace: Annotated[str, typer.Argument(metavar="NAME")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a namespace with everything in it.

    Examples:

        chorale namespaces delete drafts

        chorale namespaces delete drafts --yes --json
    """
    from chorale_client.keys import GENERATION
    from chorale_client.words import WIRE_VERSION
    from redis import RedisError

    from cli.installation import find_installation
    from cli.terminal import counted, stdout

    around = find_installation()
    state = _known(around, namespace)
    if not yes:
        if as_json or not sys.stdin.isatty():
            raise typer.BadParameter(
                f"this deletes {counted(state.documents, 'document')}: add --yes", param_hint="--yes"
            )
        typer.confirm(f"Delete {namespace} with {counted(state.documents, 'document')}?", abort=True)
    store = around.resources.writing_store
    with store.exclusive(namespace):
        try:
            store.drop(namespace)
        except StageFailure as error:
            raise DeletedInPart(
                f"{error}; other stores may have deleted their part of {namespace!r}: when that is mended, run this again"
            ) from error
        if around.redis is not None:
            # Without a generation no cached answer counts, and none is stored.
            with suppress(RedisError):
                around.redis.delete(GENERATION + namespace)
    if as_json:
        print(json.dumps({"v": WIRE_VERSION, "namespace": namespace, "deleted": state.documents}))
    else:
        stdout().print(f"{namespace}: deleted, with {counted(state.documents, 'document')}")


@namespaces.command()
def deactivate(namespace: Annotated[str, typer.Argument(metavar="NAME")], as_json: AsJson = False) -> None:
    """Let stores close a namespace that is seldom asked; the next request opens it again, a little later.

    Examples:

        chorale namespaces deactivate law-2019
    """
    from chorale_client.words import WIRE_VERSION

    from cli.installation import find_installation
    from cli.terminal import stdout
    from models.errors import NotConfigured
    from search.protocol import Deactivates

    around = find_installation()
    _known(around, namespace)
    stores = {name: around.resources.store(name) for name in around.resources.written_stores}
    closing = {name: store for name, store in stores.items() if isinstance(store, Deactivates)}
    if not closing:
        kinds = ", ".join(f"{name} ({around.pipeline.stores[name].kind})" for name in stores)
        raise NotConfigured(f"no store here closes namespaces, those of kind weaviate do; there are: {kinds}")
    for store in closing.values():
        store.deactivate(namespace)
    if as_json:
        print(json.dumps({"v": WIRE_VERSION, "namespace": namespace, "stores": list(closing)}))
    else:
        stdout().print(f"{namespace}: closed in {', '.join(closing)}")


def _known(around: Installation, namespace: str) -> NamespaceState:
    """Raises BadIndex where there is none of that name, with those there are."""
    from cli.indexing.one_writer import known
    from models.errors import BadIndex

    store = around.resources.writing_store
    if (state := known(store, namespace)) is not None:
        return state
    names = ", ".join(state.name for state in store.namespaces()) or "none yet"
    raise BadIndex(f"there is no namespace {namespace!r}; there are: {names}")


def wire(state: NamespaceState, copy: int | None) -> dict[str, Any]:
    return {
        "name": state.name,
        "documents": state.documents,
        "passages": state.passages,
        "generation": state.generation,
        "published_generation": copy,
        "manifest": asdict(state.manifest) if state.manifest else None,
    }


def table(states: list[NamespaceState], copies: dict[str, int] | None) -> Any:
    """`copies`: what Redis has; None where none answers."""
    from rich.text import Text

    from cli.terminal import plain_table

    shown = plain_table(
        "namespace", "documents", "passages", "generation", "", right=("documents", "passages", "generation")
    )
    for state in states:
        copy = None if copies is None else copies.get(state.name)
        note = (
            ""
            if copies is None or copy == state.generation
            else f"Redis has {'none' if copy is None else copy}"
        )
        shown.add_row(
            Text(state.name, "bold"),
            f"{state.documents:,}",
            f"{state.passages:,}",
            f"{state.generation:,}",
            Text(note, "yellow"),
        )
    return shown
