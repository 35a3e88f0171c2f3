"""`chorale delete`: documents out of a namespace."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tasks.indexing.run import IndexReport


def delete(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Document ids, as hits have them.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Where from.")] = "default",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Delete documents from a namespace; ids that are not there do no harm and are counted.

    Examples:

        chorale delete statutes/1998/12.md --namespace law

        chorale delete 'faq.csv#17' 'faq.csv#18' -n law --json
    """
    from chorale_client.words import WIRE_VERSION

    from cli.exit_codes import PART_DONE
    from cli.indexing.one_writer import check_namespace, order_of
    from cli.installation import find_installation
    from tasks.indexing.namespace_writer import delete_documents

    check_namespace(namespace)
    wanted = list(dict.fromkeys(ids))
    around = find_installation()
    report = delete_documents(
        around.resources, wanted, namespace=namespace, order=order_of(around, namespace)
    )
    deleted = report.deleted
    if as_json:
        print(
            json.dumps(
                {
                    "v": WIRE_VERSION,
                    "namespace": namespace,
                    "deleted": deleted,
                    "absent": len(wanted) - deleted,
                    **({"unwritten": report.unwritten} if report.unwritten else {}),
                }
            )
        )
    else:
        _show(namespace, wanted, report)
    if report.unwritten:
        raise typer.Exit(PART_DONE)


def _show(namespace: str, wanted: list[str], report: IndexReport) -> None:
    from cli.terminal import stdout

    deleted = report.deleted
    absent = f", {len(wanted) - deleted:,} were not there" if deleted < len(wanted) else ""
    stdout().print(f"{namespace}: {deleted:,} deleted{absent}")
    for document_id, why in report.unwritten.items():
        stdout().print(f"  not in every store yet: {document_id}: {why}", soft_wrap=True)
