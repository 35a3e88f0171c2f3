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
CORPUS, TRAIL = "corpus.db", "audit.db"
DOCUMENTS = "documents.db"
STORES = "stores"
"""Folder of the embedded stores beside the one in CORPUS."""


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
    def databases(self) -> set[str]:
        """The files with documents, from which answers are made."""
        return {name for name in self.files if name in (CORPUS, DOCUMENTS) or name.startswith(f"{STORES}/")}

    def write(self, folder: Path) -> None:
        (folder / MANIFEST).write_text(json.dumps({"v": 1, **asdict(self)}, indent=1) + "\n")


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file in the folder but the manifest."""
    found = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.name != MANIFEST:
            with file.open("rb") as opened:
                found[str(file.relative_to(folder))] = hashlib.file_digest(opened, "sha256").hexdigest()
    return found


def read_backup(folder: Path) -> Backup:
    """The manifest, once the checksum of every file is compared; raises ServiceError."""
    try:
        said = json.loads((folder / MANIFEST).read_text())
        backup = Backup(**{name: said[name] for name in Backup.__dataclass_fields__})
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
    found = digests(folder)
    wrong = sorted(name for name, digest in backup.files.items() if found.get(name) != digest)
    if wrong:
        raise ServiceError(
            f"{folder} is damaged: {', '.join(wrong)} is missing or was changed; use another backup"
        )
    return backup
