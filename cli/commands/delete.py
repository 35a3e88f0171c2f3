"""`chorale delete`: delete documents from a namespace."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.exit_codes import PART_DONE
from cli.installation import find_installation
from cli.namespace_states import check_namespace, order_of
from cli.options import AsJson, Namespace
from cli.terminal import print_json, stdout


def delete(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Document ids, as hits have them.")],
    namespace: Namespace = "default",
    as_json: AsJson = False,
) -> None:
    """Delete documents from a namespace; unknown ids are only counted.

    Examples:

        chorale delete statutes/1998/12.md --namespace law

        chorale delete 'faq.csv#17' 'faq.csv#18' -n law --json
    """
    from tasks.indexing.namespace_writer import delete_documents

    check_namespace(namespace)
    distinct_ids = list(dict.fromkeys(map(_as_kept, ids)))
    installation = find_installation()
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


def _as_kept(document_id: str) -> str:
    """The id in the form that stores keep.  A malformed id, which no store has, stays as it is."""
    from ingest.document_ids import checked_id

    try:
        return checked_id(document_id)
    except ValueError:
        return document_id
