"""`chorale delete` and `chorale verify`: delete documents, and mend stores that differ from them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cli.exit_codes import PART_DONE
from cli.installation import find_installation
from cli.namespace_states import check_namespace, order_of, publish
from cli.options import AsJson, Namespace
from cli.output import print_json
from cli.progress import working_bar
from cli.terminal import stdout

if TYPE_CHECKING:
    from search.documents.verifying import Difference


def delete(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Document ids, as hits have them.")],
    namespace: Namespace = "default",
    as_json: AsJson = False,
) -> None:
    """Delete documents from a namespace; unknown ids are only counted.

    Examples:

        chorale delete statutes/1998/12.md --namespace law
    """
    from tasks.indexing.namespace_writer import delete_documents

    check_namespace(namespace)
    distinct_ids = list(dict.fromkeys(map(_stored_form, ids)))
    installation = find_installation().cell_of(namespace)
    report = delete_documents(
        installation.resources, distinct_ids, namespace=namespace, order=order_of(installation, namespace)
    )
    deleted, absent, unwritten = report.deleted, len(distinct_ids) - report.deleted, report.unwritten
    if as_json:
        fields = {"namespace": namespace, "deleted": deleted, "absent": absent}
        print_json({**fields, **({"unwritten": unwritten} if unwritten else {})})
    else:
        not_there = f", {absent:,} were not there" if absent else ""
        stdout().print(f"{namespace}: {deleted:,} deleted{not_there}")
        for document_id, why in unwritten.items():
            stdout().print(f"  not in every store yet: {document_id}: {why}", soft_wrap=True)
    if unwritten:
        raise typer.Exit(PART_DONE)


def _stored_form(document_id: str) -> str:
    """The id in the form that stores keep.  A malformed id, which no store has, stays as it is."""
    from ingest.document_ids import checked_id

    try:
        return checked_id(document_id)
    except ValueError:
        return document_id


KINDS = ("missing", "outdated", "incomplete", "surplus")


def verify(
    namespace: Namespace = "default",
    check: Annotated[bool, typer.Option("--check", help="Compare only, and mend nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare what every store shows with the documents' database, and mend what differs.

    A document that a store lacks is written again from the database. A document that the database lacks is deleted from
    the store, whatever its source. A store without an index of the namespace builds one.

    Exit code: 0 every store shows every document, 8 some do not (they are listed), 2 wrong usage, 1 anything else.
    """

    check_namespace(namespace)
    installation = find_installation()
    store = installation.resources.writing_store
    with working_bar(f"comparing {namespace}"):
        differences = store.verify(namespace, mends=not check)
    unwritten = store.unwritten(namespace)
    publish(installation.resources, namespace)
    if as_json:
        stores = {name: asdict(difference) for name, difference in differences.items()}
        print_json({"namespace": namespace, "stores": stores, "unwritten": unwritten})
    else:
        for name, difference in differences.items():
            stdout().print(f"{name}: {_summary(difference, mends=not check)}")
        for document_id, why in list(unwritten.items())[:20]:
            stdout().print(f"  {document_id}: {why}", soft_wrap=True)
    if unwritten or any(differs.failure or (check and differs) for differs in differences.values()):
        raise typer.Exit(PART_DONE)


def _summary(difference: Difference, *, mends: bool) -> str:
    if difference.failure:
        return difference.failure
    counts = [f"{count:,} {kind}" for kind in KINDS if (count := difference.counts.get(kind))]
    if not counts:
        return "shows what it should"
    return ", ".join(counts) + (", mended" if mends else "")
