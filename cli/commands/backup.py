"""`chorale backup` and `chorale restore`: copy the files of an installation while it runs, and put them back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.installation import Installation, find_installation
from cli.options import AsJson
from cli.progress import working_bar
from cli.terminal import counted, print_result

if TYPE_CHECKING:
    from cli.backups.files import Backup


def backup(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to create for the backup.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the backup that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Copy documents, vectors and audit trail into a folder; searches and indexing go on meanwhile.

    All copies are of one moment. A backup has no indexes, nothing of Redis (requests in flight, cached answers) and
    nothing of PostgreSQL, which has its own tools (pg_dump).

    Examples:

        chorale backup /backups/2026-11-21
    """
    from cli.backups.files import back_up

    installation, target = find_installation(), folder.expanduser().absolute()
    with working_bar("copying"):
        made = back_up(installation, target, force=force)
    _show(installation, target, made, as_json=as_json)


def restore(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder that `chorale backup` wrote.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the data that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put a backup into CHORALE_HOME, where nothing may run meanwhile.

    Every file is checked first, and the old data is replaced once the new data is complete. The lexical
    indexes are built again, and answers that were cached before are no longer served. Elasticsearch,
    Weaviate and other servers show the restored documents after `chorale verify`.

    Examples:

        CHORALE_HOME=~/law chorale restore /backups/2026-11-21

        chorale restore /backups/latest --force
    """
    from cli.backups.restoring import put_back

    installation = find_installation()
    with working_bar("checking, copying, building the lexical indexes"):
        restored = put_back(installation, folder.expanduser().absolute(), force=force)
    _show(installation, installation.settings.home, restored, as_json=as_json)


def _show(installation: Installation, where: Path, backup: Backup, *, as_json: bool) -> None:
    from cli.backups.files import DOCUMENTS, TRAIL, data_files

    elsewhere = data_files(installation).elsewhere
    documents = counted(sum(state["documents"] for state in backup.namespaces), "document")
    namespaces = counted(len(backup.namespaces), "namespace")
    copied = f"{documents} in {namespaces}" if DOCUMENTS in backup.files else "no documents"
    trail = "with the audit trail" if TRAIL in backup.files else "without an audit trail"
    print_result(
        {"folder": str(where), **asdict(backup), "elsewhere": elsewhere},
        f"{where}: {copied}, {trail}, as of {backup.created}",
        *(f"not part of it: {sentence}" for sentence in elsewhere),
        as_json=as_json,
    )
