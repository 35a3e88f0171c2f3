"""`chorale verify`: compares the stores with the table of documents, and mends the differences."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cli.exit_codes import PART_DONE
from cli.installation import find_installation
from cli.namespace_states import check_namespace, publish
from cli.options import AsJson, Namespace
from cli.progress import working_bar
from cli.terminal import print_json, stdout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from search.documents.verifying import Difference

KINDS = ("missing", "outdated", "incomplete", "surplus")


def verify(
    namespace: Namespace = "default",
    check: Annotated[bool, typer.Option("--check", help="Compare only, and mend nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare what every store shows with the table of documents, and mend what differs.

    A document that a store lacks is written again from the table. A document that the table lacks is deleted from the
    store, whatever its source. An installation with one embedded store has no such table, and the store mends itself.

    Exit code: 0 every store shows every document, 8 some do not (they are listed), 2 wrong usage, 1 anything else.

    Examples:

        chorale verify --namespace law

        chorale verify -n law --check --json
    """
    from search.documents.store import ClusteredStore

    check_namespace(namespace)
    installation = find_installation()
    store = installation.resources.writing_store
    found: Mapping[str, Difference] = {}
    unwritten: dict[str, str] = {}
    if isinstance(store, ClusteredStore):
        with working_bar(f"comparing {namespace}"):
            found = store.verify(namespace, mends=not check)
        unwritten = store.unwritten(namespace)
        publish(installation.resources, namespace)
    else:
        # Raises BadIndex where the store is damaged.
        store.warm(namespace)
    if as_json:
        told = {name: asdict(one) for name, one in found.items()}
        print_json({"namespace": namespace, "stores": told, "unwritten": unwritten})
    else:
        for name, one in found.items():
            stdout().print(f"{name}: {_said(one, mends=not check)}")
        for document_id, why in list(unwritten.items())[:20]:
            stdout().print(f"  {document_id}: {why}", soft_wrap=True)
        if not found:
            stdout().print(f"{namespace}: one embedded store, which is its own truth; nothing to compare")
    if unwritten or any(one.failure or (check and one) for one in found.values()):
        raise typer.Exit(PART_DONE)


def _said(found: Difference, *, mends: bool) -> str:
    if found.failure:
        return found.failure
    counts = [f"{len(ids):,} {kind}" for kind in KINDS if (ids := getattr(found, kind))]
    if not counts:
        return "shows what it should"
    return ", ".join(counts) + (", mended" if mends else "")
