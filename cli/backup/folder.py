"""The folder of a backup: the copied files, and `manifest.json` with their names and checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from config.home import HOME_FORMAT
from models.errors import ServiceError

MANIFEST = "manifest.json"
DOCUMENTS, TRAIL = "documents.db", "audit.db"
CORPUS = "corpus.db"
"""The documents in the backup of one embedded store that an earlier version wrote."""


@dataclass(frozen=True, slots=True)
class Backup:
    """The content of `manifest.json`."""

    format: int
    """Format of the installation's folder (`config.home`)."""
    program: str
    """Version of the program that wrote it."""
    created: str
    """ISO 8601."""
    namespaces: Sequence[Mapping[str, Any]]
    """`{name, documents, passages, generation}` for each namespace."""
    files: Mapping[str, str]
    """SHA-256 of each file, by its path inside the folder."""

    @property
    def documents(self) -> str | None:
        """The file with the documents."""
        return next((name for name in (DOCUMENTS, CORPUS) if name in self.files), None)

    def write(self, folder: Path) -> None:
        (folder / MANIFEST).write_text(json.dumps({"v": 1, **asdict(self)}, indent=1) + "\n")


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file in the folder but the manifest."""
    digest_by_name = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.name != MANIFEST:
            with file.open("rb") as opened:
                name = str(file.relative_to(folder))
                digest_by_name[name] = hashlib.file_digest(opened, "sha256").hexdigest()
    return digest_by_name


def read_backup(folder: Path) -> Backup:
    """The manifest, once the checksum of every file is compared; raises ServiceError."""
    try:
        content = json.loads((folder / MANIFEST).read_text())
        backup = Backup(**{name: content[name] for name in Backup.__dataclass_fields__})
        newest = int(backup.format)
    except FileNotFoundError:
        raise ServiceError(f"{folder} is no backup: it has no {MANIFEST}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ServiceError(f"{folder / MANIFEST} cannot be read: {type(error).__name__}: {error}") from None
    if newest > HOME_FORMAT:
        raise ServiceError(
            f"{folder} has format {newest}, but the newest that this program knows is {HOME_FORMAT}: restore it with "
            f"version {backup.program} or newer"
        )
    present = digests(folder)
    wrong = sorted(name for name, digest in backup.files.items() if present.get(name) != digest)
    if wrong:
        raise ServiceError(
            f"{folder} is damaged: {', '.join(wrong)} is missing or was changed; use another backup"
        )
    return backup
