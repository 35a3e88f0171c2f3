"""`chorale delete`: documents out of a namespace."""

from __future__ import annotations

import json
from typing import Annotated

import typer


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

    from cli.surroundings import surroundings
    from cli.terminal import stdout
    from cli.writing import check_namespace, publish
    from tasks.corpus import alone, near_duplicates

    check_namespace(namespace)
    around = surroundings()
    store = around.resources.writing_store
    wanted = list(dict.fromkeys(ids))
    with alone(store, namespace):
        deleted = store.delete(namespace, wanted)
        groups = near_duplicates(around.settings, namespace)
        for document_id in wanted:
            groups.forget(document_id)
        groups.save()
        publish(around.resources, namespace)
    if as_json:
        print(
            json.dumps(
                {
                    "v": WIRE_VERSION,
                    "namespace": namespace,
                    "deleted": deleted,
                    "absent": len(wanted) - deleted,
                }
            )
        )
        return
    absent = f", {len(wanted) - deleted:,} were not there" if deleted < len(wanted) else ""
    stdout().print(f"{namespace}: {deleted:,} deleted{absent}")
