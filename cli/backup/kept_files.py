"""What of an installation is in files of its own, and what is elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.database import trail_file
from cli.installation import Installation


@dataclass(frozen=True, slots=True)
class KeptFiles:
    documents: Path | None
    """The documents' database; None if there is none, or if PostgreSQL has it."""
    trail: Path | None
    """The database of the audit trail; None if PostgreSQL has it."""
    servers: Mapping[str, str]
    """The kinds of the stores that servers hold, by their names."""
    in_postgresql: Sequence[str]

    @property
    def elsewhere(self) -> list[str]:
        """One sentence for each kind of data that `chorale backup` does not copy."""
        sentences = []
        if self.in_postgresql:
            named = " and ".join(self.in_postgresql)
            sentences.append(f"{named}, in PostgreSQL: its own tools back that up (pg_dump)")
        if self.servers:
            named = ", ".join(f"{name} ({kind})" for name, kind in self.servers.items())
            sentences.append(f"{named}: built anew from the documents by `chorale verify`")
        return sentences


def kept_files(installation: Installation) -> KeptFiles:
    resources, stores = installation.resources, installation.pipeline.stores
    file = resources.documents.file if resources.written_stores else None
    documents = None if file is None else file.path
    trail = trail_file(installation.settings.audit_database_url)
    in_postgresql = ["the documents"] if resources.written_stores and documents is None else []
    if trail is None:
        in_postgresql.append("the audit trail")
    kinds = {name: stores[name].kind for name in resources.written_stores}
    servers = {name: kind for name, kind in kinds.items() if kind != "embedded"}
    # Both may be in one file, which is copied once.
    return KeptFiles(documents, None if trail == documents else trail, servers, in_postgresql)
