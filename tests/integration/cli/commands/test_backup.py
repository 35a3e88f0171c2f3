"""`chorale backup` while documents are indexed, and `chorale restore` elsewhere or over what is there."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.backups.files import MANIFEST, back_up
from cli.backups.restoring import put_back
from cli.installation import Installation
from config.home import HOME_FORMAT
from config.settings import Settings
from ingest.near_duplicates import NearDuplicates
from models.documents import Document, Manifest, Passage
from models.errors import BadIndex, ServiceError, WriterBusy
from records.database import open_database
from search.documents.store import DocumentStore
from tests.integration.cli.commands.printed import complaint, document, output
from tests.support.command_line import Run, as_process
from tests.support.faults.observers import audited
from tests.support.ledger.audit_rows import count
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.pipelines.pipeline_files import BM25_ALONE
from tests.support.servers.elasticsearch_server import address, corner
from tests.support.servers.redis_server import RedisServer

TWO = f'{BM25_ALONE}[stores.archive]\nkind = "embedded"\noptions = {{ folder = "archive" }}\n'
WITH_A_SERVER = """
[stores.texts]
kind = "elasticsearch"
options = {{ url = "{url}", prefix = "{prefix}" }}
"""
WORDS = Manifest(splitter="whole", language="en", analyser="tests", embedder="none", dimension=0)


def at_home(home: Path, pipeline: str = BM25_ALONE) -> Installation:
    file = home.with_suffix(".toml")
    file.write_text(pipeline)
    return Installation(Settings(home=home, pipeline_file=file), None)


@pytest.fixture
def home(tmp_path: Path) -> Installation:
    """A home with two stores and the table of documents."""
    return at_home(tmp_path / "home", TWO)


@contextmanager
def opened(installation: Installation) -> Iterator[DocumentStore]:
    """As another process would have it."""
    resources = Installation(installation.settings, None).resources
    with closing(resources.documents), closing(resources.writing_store) as store:
        yield store


def assert_verified(installation: Installation) -> None:
    """Nothing is left of batches on their way, and all stores show what the documents' database says."""
    with opened(installation) as store:
        assert store.settle("law") == {}
        assert not any(store.verify("law", mends=False).values())


def made_of(name: str, text: str) -> Document:
    return Document(name, "tests", name, (Passage(f"{name}#0", 0, text, end=len(text)),), {}, text, text)


def filled(installation: Installation, *names: str, namespace: str = "law") -> int:
    """Index one document for each name; the generation."""
    with opened(installation) as store:
        store.create(namespace, WORDS)
        return store.upsert(namespace, [made_of(name, name) for name in names])


def documents_by_store(installation: Installation, namespace: str = "law") -> dict[str, list[str]]:
    with opened(installation) as store:
        rows = {row.store: row.index for row in store.table.all_indexes(namespace) if row.is_visible}
        return {
            name: sorted({entry.document_id for entry in engine.entries(rows[name])})
            for name, engine in store.stores.items()
            if name in rows
        }


def searchable_documents(installation: Installation, namespace: str = "law") -> list[str]:
    """The documents that every store finds."""
    first, *others = documents_by_store(installation, namespace).values()
    assert all(other == first for other in others)
    return first


@contextmanager
def written_all_the_while(write: Callable[[int], Any]) -> Iterator[Callable[[], int]]:
    """Write in another thread, again and again; gives what waits for two more rounds and tells how many there were."""
    stop, rounds = threading.Event(), [0]

    def run() -> None:
        while not stop.is_set():
            write(rounds[0])
            rounds[0] += 1

    def after_two_more() -> int:
        before = rounds[0]
        while rounds[0] < before + 2:
            assert writer.is_alive()
            stop.wait(0.01)
        return rounds[0]

    writer = threading.Thread(target=run)
    writer.start()
    try:
        yield after_two_more
    finally:
        stop.set()
        writer.join()


@pytest.mark.slow
def test_a_backup_of_a_running_installation_answers_the_same_elsewhere(
    pipeline: RunningPipeline, alone: Run, tmp_path: Path
) -> None:
    question: dict[str, Any] = {"questions": "when may a tenant leave?", "cache": "bypass", "timeout_s": 20}
    before = pipeline.client().retrieve(**question)
    audited(pipeline, before.request_id)
    called = as_process("backup", str(tmp_path / "backup"), "--json", **pipeline.environment)
    namespaces = {state["name"]: state["documents"] for state in document(called)["namespaces"]}
    assert namespaces["default"] == 5
    with RedisServer() as server:
        elsewhere = RunningPipeline(server)
        restored = alone("restore", str(tmp_path / "backup"), CHORALE_HOME=str(elsewhere.home))
        assert "with the audit trail" in output(restored)
        assert count(open_database(f"sqlite:///{elsewhere.home}/audit.db")) >= 1
        with elsewhere:
            after = elsewhere.client().retrieve(**question)
    answers = [
        (answer.status, [(hit.document_id, hit.score) for hit in answer.hits]) for answer in (before, after)
    ]
    assert answers[0] == answers[1]
    assert before.status == "complete"


@pytest.mark.slow
def test_a_backup_taken_while_documents_change_is_consistent(home: Installation, tmp_path: Path) -> None:
    filled(home, "always", "changing")

    def index(number: int) -> None:
        store.upsert("law", [made_of("changing", f"version {number}"), made_of(f"new{number}", "new")])
        store.delete("law", [f"new{number - 2}"])

    with opened(home) as store, written_all_the_while(index) as after_two_more:
        for number in range(3):
            after_two_more()
            back_up(home, tmp_path / f"backup{number}", force=False)

    for number in range(3):
        restored = at_home(tmp_path / f"home{number}", TWO)
        backup = put_back(restored, tmp_path / f"backup{number}", force=False)
        assert {*backup.files} == {"documents.db"}
        assert_verified(restored)
        with opened(restored) as store:
            (state,) = store.namespaces()
        names = searchable_documents(restored)
        assert {"always", "changing"} <= {*names}
        assert backup.namespaces[0]["documents"] == state.documents == len(names)


def test_nothing_is_overwritten_without_force(home: Installation, tmp_path: Path) -> None:
    filled(home, "lease")
    backup, other = tmp_path / "backup", tmp_path / "other"
    back_up(home, backup, force=False)
    with pytest.raises(ServiceError, match="add --force"):
        back_up(home, backup, force=False)
    other.mkdir()
    (other / "thesis.txt").touch()
    with pytest.raises(ServiceError, match="only a backup is replaced"):
        back_up(home, other, force=True)
    filled(home, "rent")
    assert [state["documents"] for state in back_up(home, backup, force=True).namespaces] == [2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "home", "home.toml", "other"]

    filled(home, "bread")
    with pytest.raises(ServiceError, match=r"documents\.db would be replaced"):
        put_back(home, backup, force=False)
    assert searchable_documents(home) == ["bread", "lease", "rent"]
    put_back(home, backup, force=True)
    assert searchable_documents(home) == ["lease", "rent"]


def test_near_duplicates_are_restored_with_the_documents(home: Installation, tmp_path: Path) -> None:
    def assigned(name: str) -> str | None:
        with opened(home) as store:
            groups = NearDuplicates(lambda: store.near_duplicate_rows("law"))
            return groups.assign({name: " ".join(f"word{n}" for n in range(50))})[name]

    filled(home, "lease")
    assert assigned("first") is None
    back_up(home, tmp_path / "backup", force=False)
    assert assigned("after") == "first"
    put_back(home, tmp_path / "backup", force=True)
    assert assigned("second") == "first"


@pytest.mark.slow
def test_no_answer_cached_before_a_restore_is_served_after_it(
    home: Installation, own_redis_server: RedisServer, tmp_path: Path
) -> None:
    installation = replace(home, redis_url=own_redis_server.url)
    redis = own_redis_server.client()
    old = filled(installation, "lease")
    back_up(installation, tmp_path / "backup", force=False)
    newest = max(filled(installation, "rent"), filled(installation, "deposit"))
    assert newest > old
    filled(installation, "bread", namespace="later")
    redis.set("chorale:generation:later", 1)
    # Somebody raised it once more before the corpus was lost.
    redis.set("chorale:generation:law", newest + 1)

    put_back(installation, tmp_path / "backup", force=True)

    assert searchable_documents(installation) == ["lease"]
    with opened(installation) as store:
        (state,) = store.namespaces()
    assert state.generation > newest + 1
    assert int(redis.get("chorale:generation:law") or 0) == state.generation
    assert redis.get("chorale:generation:later") is None
    # A namespace of the name that is gone does not begin where the old one ended.
    assert filled(installation, "bread", namespace="later") > 2
    assert [path.name for path in home.settings.home.iterdir() if path.suffix.startswith(".re")] == []


def test_a_restore_waits_for_nobody_who_uses_the_folder(
    chorale: Run, home: Installation, tmp_path: Path
) -> None:
    filled(home, "lease")
    back_up(home, tmp_path / "backup", force=False)
    sentence = complaint(chorale("restore", str(tmp_path / "backup"), "--force"))
    assert "4 processes work here" in sentence
    assert "stop them first" in sentence


def test_a_restore_waits_for_nobody_who_writes_the_corpus(home: Installation, tmp_path: Path) -> None:
    filled(home, "lease")
    back_up(home, tmp_path / "backup", force=False)
    with opened(home) as store, store.exclusive("law"), pytest.raises(WriterBusy, match="'law'"):
        put_back(home, tmp_path / "backup", force=True)
    assert searchable_documents(home) == ["lease"]


def test_a_damaged_corpus_is_not_backed_up_and_can_be_replaced(tmp_path: Path) -> None:
    simple = at_home(tmp_path / "home")
    filled(simple, "lease")
    back_up(simple, tmp_path / "backup", force=False)
    file = simple.settings.home / "corpus" / "corpus.db"
    for wal in file.parent.glob("corpus.db-*"):
        wal.unlink()
    file.write_bytes(file.read_bytes()[:8192])
    with pytest.raises(BadIndex, match="are damaged"):
        back_up(simple, tmp_path / "in-vain", force=False)
    assert not list(tmp_path.glob("in-vain*"))
    put_back(simple, tmp_path / "backup", force=True)
    assert searchable_documents(simple) == ["lease"]


def test_the_index_of_a_server_is_built_again_from_the_restored_table(tmp_path: Path) -> None:
    with corner() as prefix:
        server = WITH_A_SERVER.format(url=address(), prefix=prefix)
        installation = at_home(tmp_path / "home", BM25_ALONE + server)
        filled(installation, "lease")
        back_up(installation, tmp_path / "backup", force=False)
        filled(installation, "rent")
        put_back(installation, tmp_path / "backup", force=True)
        assert documents_by_store(installation) == {"local": ["lease"], "texts": ["lease", "rent"]}
        with opened(installation) as store:
            store.verify("law", mends=True)
        assert searchable_documents(installation) == ["lease"]


@pytest.mark.slow
def test_a_backup_of_several_stores_is_restored_where_there_is_one_and_the_other_way_round(
    tmp_path: Path,
) -> None:
    for number, (before, after) in enumerate(((TWO, BM25_ALONE), (BM25_ALONE, TWO))):
        source = at_home(tmp_path / f"source{number}", before)
        filled(source, "lease")
        back_up(source, tmp_path / f"backup{number}", force=False)
        other = at_home(tmp_path / f"other{number}", after)
        put_back(other, tmp_path / f"backup{number}", force=False)
        assert searchable_documents(other) == ["lease"]


def test_a_backup_says_which_data_is_on_servers_and_not_part_of_it(alone: Run, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(BM25_ALONE + WITH_A_SERVER.format(url="http://127.0.0.1:1", prefix="nowhere"))
    postgresql = "postgresql+psycopg://nobody@127.0.0.1:1/none"
    away = {"CHORALE_PIPELINE_FILE": str(file), "CHORALE_AUDIT_URL": postgresql}
    words = output(alone("backup", str(tmp_path / "backup"), **away))
    tables = "the documents and the audit trail, in PostgreSQL: its own tools back that up"
    assert f"not part of it: {tables}" in words
    assert "not part of it: texts (elasticsearch): built anew from the documents by `chorale verify`" in words
    assert json.loads((tmp_path / "backup" / MANIFEST).read_text())["files"] == {}


@pytest.mark.parametrize("arguments", [["up"], ["worker", "bm25"]], ids=" ".join)
def test_a_newer_program_s_folder_is_left_alone(alone: Run, tmp_path: Path, arguments: list[str]) -> None:
    newer = tmp_path / "newer"
    newer.mkdir()
    (newer / "format").write_text(f"{HOME_FORMAT + 1}\n")
    called = alone(*arguments, CHORALE_HOME=str(newer), CHORALE_REDIS_URL="redis://127.0.0.1:1/0")
    assert complaint(called) == (
        f"chorale: the folder {newer} has format {HOME_FORMAT + 1}, but the newest that this program knows is {HOME_FORMAT}: "
        "start the newer program that wrote it, or set CHORALE_HOME to another folder\n"
    )
    assert {path.name for path in newer.iterdir()} <= {"format", "up.lock"}
