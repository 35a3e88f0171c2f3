"""What of an installation is in files of its own, by the name that each has in a backup, and what is elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.database import trail_file
from cli.backup.folder import CORPUS, DOCUMENTS, STORES
from cli.installation import Installation
from search.documents.snapshot import table_file
from search.kinds.embedded import EmbeddedOptions


@dataclass(frozen=True, slots=True)
class KeptFiles:
    corpora: Mapping[str, Path]
    """Folders of the embedded stores; two stores may share one."""
    table: Path | None
    """The database of the table of documents; None if there is none, or if PostgreSQL has it."""
    trail: Path | None
    """The database of the audit trail; None if PostgreSQL has it."""
    servers: Mapping[str, str]
    """The kinds of the stores that servers hold, by their names."""
    in_postgresql: Sequence[str]

    @property
    def databases(self) -> set[str]:
        """The names that the databases for answers have in a backup."""
        return {*self.corpora, DOCUMENTS} if self.table else {*self.corpora}

    @property
    def elsewhere(self) -> list[str]:
        """One sentence for each kind of data that `chorale backup` does not copy."""
        said = []
        if self.in_postgresql:
            named = " and ".join(self.in_postgresql)
            said.append(f"{named}, in PostgreSQL: its own tools back that up (pg_dump)")
        if self.servers:
            named = ", ".join(f"{name} ({kind})" for name, kind in self.servers.items())
            said.append(f"{named}: built anew from the table of documents by `chorale verify`")
        return said


def kept_files(installation: Installation) -> KeptFiles:
    settings, pipeline = installation.settings, installation.pipeline
    corpora: dict[str, Path] = {}
    for name, declared in pipeline.stores.items():
        if declared.kind == "embedded":
            folder = settings.home / EmbeddedOptions(**declared.options).folder
            if folder not in corpora.values():
                corpora[CORPUS if folder == settings.corpus_dir else f"{STORES}/{name}.db"] = folder
    has_table = installation.resources.has_document_table
    table = table_file(settings.documents_database_url) if has_table else None
    trail = trail_file(settings.audit_database_url)
    in_postgresql = ["the table of documents"] if has_table and table is None else []
    if trail is None:
        in_postgresql.append("the audit trail")
    kinds = {name: pipeline.stores[name].kind for name in installation.resources.written_stores}
    servers = {name: kind for name, kind in kinds.items() if kind != "embedded"}
    # Both may be in one file, which is copied once.
    return KeptFiles(corpora, table, None if trail == table else trail, servers, in_postgresql)
