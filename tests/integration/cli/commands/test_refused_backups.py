"""Backups that were changed, or that somebody else made, are refused and change nothing."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cli.backups.files import MANIFEST, back_up, digests
from cli.backups.restoring import put_back
from cli.installation import Installation
from config.home import HOME_FORMAT
from models.errors import ServiceError
from tests.integration.cli.commands.test_backup import at_home, filled, searchable_documents


@pytest.fixture
def simple(tmp_path: Path) -> Installation:
    return at_home(tmp_path / "home")


def test_a_backup_that_was_changed_is_no_backup(simple: Installation, tmp_path: Path) -> None:
    filled(simple, "lease")
    backup = tmp_path / "backup"
    back_up(simple, backup, force=False)
    file, manifest = backup / "documents.db", backup / MANIFEST
    whole, fields = file.read_bytes(), json.loads(manifest.read_text())

    def refused(reason: str, folder: Path = backup) -> None:
        with pytest.raises(ServiceError, match=reason):
            put_back(simple, folder, force=True)

    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    refused(r"is damaged: documents\.db")
    file.unlink()
    refused(r"is damaged: documents\.db")
    file.write_bytes(whole)
    manifest.write_text(json.dumps({**fields, "format": HOME_FORMAT + 1, "program": "7.0"}))
    refused(r"restore it with version 7\.0 or newer")
    for changed in (
        {},
        {**fields, "format": math.inf},
        {**fields, "namespaces": [1]},
        {**fields, "namespaces": 2**63},
    ):
        manifest.write_text(json.dumps(changed))
        refused("cannot be read")
    os.truncate(manifest, 1 << 33)  # a sparse file
    refused(r"is no backup: manifest\.json has 8,589,934,592 bytes")
    refused("is no backup", tmp_path)
    manifest.unlink()
    os.mkfifo(manifest)
    refused(r"is no backup: it has no manifest\.json")
    (backup / "more").write_bytes(b"")
    assert digests(backup).keys() == {"documents.db"}
    assert searchable_documents(simple) == ["lease"]


TRIGGER = "CREATE TRIGGER cleared AFTER UPDATE ON chorale_generation BEGIN DELETE FROM chorale_passage; END"


def test_a_backup_that_somebody_else_made_is_refused_and_changes_nothing(
    simple: Installation, tmp_path: Path
) -> None:
    filled(simple, "lease")
    backup = tmp_path / "backup"
    back_up(simple, backup, force=False)
    file, manifest, elsewhere = backup / "documents.db", backup / MANIFEST, tmp_path / "elsewhere.db"
    whole, fields = file.read_bytes(), json.loads(manifest.read_text())

    def refused(reason: str, files: object = None) -> None:
        if files is None:
            files = {file.name: hashlib.sha256(file.read_bytes()).hexdigest()}
        manifest.write_text(json.dumps({**fields, "files": files}))
        with pytest.raises(ServiceError, match=reason):
            put_back(simple, backup, force=True)

    elsewhere.write_bytes(whole)
    digest = hashlib.sha256(whole).hexdigest()
    for name in ("../elsewhere.db", str(elsewhere), "a/../documents.db"):
        # The error shortens a long name.
        reason = rf"names '.*{Path(name).name}'; a backup has documents\.db, audit\.db"
        refused(reason, {**fields["files"], name: digest})
    refused("`files` is not an object", [file.name])
    file.unlink()
    file.symlink_to(elsewhere)
    refused("documents.db is a link")
    file.unlink()
    file.write_bytes(b"no database" * 100)
    refused("is no database: file is not a database")
    for statement, what in (
        (TRIGGER, "trigger 'cleared'"),
        ("CREATE VIEW chorale_seen AS SELECT 1", "view 'chorale_seen'"),
    ):
        file.write_bytes(whole)
        with closing(sqlite3.connect(file)) as opened:
            opened.execute(statement)
        refused(f"documents.db has the {what}, which Chorale does not make")
    assert searchable_documents(simple) == ["lease"]
    assert [path.name for path in simple.settings.home.iterdir() if path.suffix == ".restoring"] == []
