"""`chorale backup` and `restore` of several embedded stores and the table of documents: one moment, while all are written."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from cli.backup.copying import back_up, put_back
from cli.backup.folder import MANIFEST
from cli.installation import Installation
from config.settings import Settings
from ingest.near_duplicates import NearDuplicates
from models.documents import Document, Manifest, Passage
from models.errors import ServiceError, WriterBusy
from search.embedded.snapshot import still_corpus
from search.several_stores import snapshot
from search.several_stores.store import ClusteredStore
from tests.support.command_line import Run
from tests.support.servers.elasticsearch_server import address, corner

TWO = """
[stores.local]
kind = "embedded"
[stores.archive]
kind = "embedded"
options = { folder = "archive" }
[branches.bm25]
kind = "bm25"
group = "lexical"
store = "local"
"""
WITH_A_SERVER = """
[stores.local]
kind = "embedded"
[stores.texts]
kind = "elasticsearch"
options = {{ url = "{url}", prefix = "{prefix}" }}
[branches.bm25]
kind = "bm25"
group = "lexical"
store = "texts"
"""
WORDS = Manifest(splitter="whole", language="en", analyser="tests", embedder="none", dimension=0)


def at_home(home: Path, pipeline: str) -> Installation:
    file = home.with_suffix(".toml")
    file.write_text(pipeline)
    return Installation(Settings(home=home, pipeline_file=file), None)


@contextmanager
def opened(installation: Installation) -> Iterator[ClusteredStore]:
    """As another process would have it."""
    fresh = Installation(installation.settings, None)
    with closing(fresh.resources.clustered) as store:
        yield store


def document(name: str, version: int = 0) -> Document:
    text = f"{name} in version {version}"
    passage = Passage(f"{name}#{version}", 0, text, end=len(text))
    return Document(name, "tests", name, (passage,), {}, text, text)


def filled(installation: Installation, *names: str) -> int:
    with opened(installation) as store:
        store.create("law", WORDS)
        return store.upsert("law", [document(name) for name in names])


def shown(installation: Installation) -> dict[str, list[str]]:
    """The documents of `law` by store, as each of them finds them."""
    with opened(installation) as all_stores:
        found = {name: store.revisions("law", "tests") for name, store in all_stores.stores.items()}
    return {name: sorted(revisions) for name, revisions in found.items()}


@pytest.mark.slow
def test_a_backup_taken_while_documents_change_is_consistent(tmp_path: Path) -> None:
    installation, stop, rounds = at_home(tmp_path / "home", TWO), threading.Event(), [0]
    filled(installation, "always", "changing")

    def index() -> None:
        with opened(installation) as store:
            while not stop.is_set():
                rounds[0] += 1
                store.upsert("law", [document("changing", rounds[0]), document(f"new{rounds[0]}")])
                store.delete("law", [f"new{rounds[0] - 2}"])

    writer = threading.Thread(target=index)
    writer.start()
    try:
        for number in range(6):
            before = rounds[0]
            while rounds[0] < before + 2:
                stop.wait(0.01)
            back_up(installation, tmp_path / f"backup{number}", force=False)
    finally:
        stop.set()
        writer.join()

    for number in range(6):
        restored = at_home(tmp_path / f"home{number}", TWO)
        backup = put_back(restored, tmp_path / f"backup{number}", force=False)
        assert {*backup.files} == {"corpus.db", "stores/archive.db", "documents.db"}
        with opened(restored) as store:
            # Batches that were on their way are finished, as after a crash.
            assert store.settle("law") == {}
            assert not any(store.verify("law", mends=False).values())
            (state,) = store.table.namespaces()
        both = shown(restored)
        assert both["local"] == both["archive"]
        assert {"always", "changing"} <= {*both["local"]}
        assert backup.namespaces[0]["documents"] == state.documents == len(both["local"])


def test_a_batch_committed_between_the_snapshots_of_table_and_stores_repeats_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation, begun, taken = at_home(tmp_path / "home", TWO), still_corpus, list[Path]()
    filled(installation, "kept", "gone")

    def late(folder: Path) -> AbstractContextManager[sqlite3.Connection]:
        taken.append(folder)
        if len(taken) == 1:
            with opened(installation) as store:
                store.delete("law", ["gone"])
        return begun(folder)

    monkeypatch.setattr(snapshot, "still_corpus", late)
    back_up(installation, tmp_path / "backup", force=False)
    assert len(taken) == 4
    restored = at_home(tmp_path / "other", TWO)
    put_back(restored, tmp_path / "backup", force=False)
    with opened(restored) as store:
        assert not any(store.verify("law", mends=False).values())
    assert shown(restored) == {"local": ["kept"], "archive": ["kept"]}


def test_every_restored_generation_is_higher_than_those_of_cached_answers(tmp_path: Path) -> None:
    installation = at_home(tmp_path / "home", TWO)
    filled(installation, "lease")
    back_up(installation, tmp_path / "backup", force=False)
    newest = max(filled(installation, "rent"), filled(installation, "deposit"))
    assert shown(installation)["archive"] == ["deposit", "lease", "rent"]

    put_back(installation, tmp_path / "backup", force=True)

    assert shown(installation) == {"local": ["lease"], "archive": ["lease"]}
    with opened(installation) as store:
        own = {store.generation("law"), *(one.generation("law") for one in store.stores.values())}
    # Stores that differ would have no answer cached.
    assert len(own) == 1
    assert own.pop() > newest
    assert [path.name for path in installation.settings.home.iterdir() if path.suffix.startswith(".re")] == []


def test_near_duplicates_are_restored_with_the_table(tmp_path: Path) -> None:
    def assigned(installation: Installation, name: str) -> str | None:
        with opened(installation) as store:
            groups = NearDuplicates(lambda: store.near_duplicate_rows("law"))
            return groups.assign({name: " ".join(f"word{n}" for n in range(50))})[name]

    installation = at_home(tmp_path / "home", TWO)
    filled(installation, "lease")
    assert assigned(installation, "first") is None
    back_up(installation, tmp_path / "backup", force=False)
    assert assigned(installation, "after") == "first"
    put_back(installation, tmp_path / "backup", force=True)
    assert assigned(installation, "second") == "first"


def test_the_index_of_a_server_is_built_again_from_the_restored_table(tmp_path: Path) -> None:
    with corner() as prefix:
        installation = at_home(tmp_path / "home", WITH_A_SERVER.format(url=address(), prefix=prefix))
        filled(installation, "lease")
        back_up(installation, tmp_path / "backup", force=False)
        filled(installation, "rent")
        put_back(installation, tmp_path / "backup", force=True)
        assert shown(installation) == {"local": ["lease"], "texts": ["lease", "rent"]}
        with opened(installation) as store:
            store.verify("law", mends=True)
        assert shown(installation) == {"local": ["lease"], "texts": ["lease"]}


def test_a_backup_of_other_stores_is_refused_with_what_it_has(tmp_path: Path) -> None:
    installation = at_home(tmp_path / "home", TWO)
    filled(installation, "lease")
    back_up(installation, tmp_path / "backup", force=False)
    alone = Installation(Settings(home=tmp_path / "other"), None)
    said = "has corpus.db and documents.db and stores/archive.db, and the pipeline here keeps corpus.db: set"
    with pytest.raises(ServiceError, match=said):
        put_back(alone, tmp_path / "backup", force=False)
    assert not (tmp_path / "other").exists()


def test_a_restore_waits_for_nobody_who_writes_the_table(tmp_path: Path) -> None:
    installation = at_home(tmp_path / "home", TWO)
    filled(installation, "lease")
    back_up(installation, tmp_path / "backup", force=False)
    with opened(installation) as store, store.exclusive("law"), pytest.raises(WriterBusy, match="'law'"):
        put_back(installation, tmp_path / "backup", force=True)
    assert shown(installation)["archive"] == ["lease"]


def test_a_backup_says_which_data_is_on_servers_and_not_part_of_it(alone: Run, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(WITH_A_SERVER.format(url="http://127.0.0.1:1", prefix="nowhere"))
    away = {
        "CHORALE_PIPELINE_FILE": str(file),
        "CHORALE_AUDIT_URL": "postgresql+psycopg://nobody@127.0.0.1:1/none",
    }
    called = alone("backup", str(tmp_path / "backup"), **away)
    assert called.returncode == 0, called.stderr
    said = " ".join(called.stdout.split())
    assert (
        "not part of it: the table of documents and the audit trail, in PostgreSQL: its own tools back that up"
    ) in said
    assert "not part of it: texts (elasticsearch): built anew from the table of documents" in said
    assert {*json.loads((tmp_path / "backup" / MANIFEST).read_text())["files"]} == {"corpus.db"}
