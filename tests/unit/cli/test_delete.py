"""`chorale delete` without an installation."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import cli.commands.delete
import tasks.indexing.namespace_writer
from cli.app import app
from tasks.indexing.indexing_run import IndexReport


def test_ids_are_looked_for_in_the_form_in_which_stores_keep_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Nowhere:
        resources = None

        def cell_of(self, _namespace: str) -> Nowhere:
            return self

    def delete_documents(_resources: object, ids: list[str], **_: object) -> IndexReport:
        asked.extend(ids)
        return IndexReport(deleted=1)

    monkeypatch.setattr(cli.commands.delete, "find_installation", Nowhere)
    monkeypatch.setattr(cli.commands.delete, "order_of", lambda *_: None)
    monkeypatch.setattr(tasks.indexing.namespace_writer, "delete_documents", delete_documents)
    done = CliRunner().invoke(app, ["delete", "docs/cafe\u0301.md", "docs/caf\u00e9.md", " ", "-n", "law"])
    assert (done.exit_code, done.stdout) == (0, "law: 1 deleted, 1 were not there\n")
    assert asked == ["docs/caf\u00e9.md", " "]
