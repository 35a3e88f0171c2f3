"""`chorale backup` while documents are indexed, and `chorale restore` elsewhere or over what is there."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from audit.database import open_database
from cli.backup.copying import back_up, put_back
from cli.backup.folder import MANIFEST
from cli.installation import Installation
from config.home_format import HOME_FORMAT
from config.settings import Settings
from ingest.near_duplicates import NearDuplicates
from models.documents import Document, Manifest, Passage
from models.errors import BadIndex, ServiceError, WriterBusy
from search.embedded.store import EmbeddedStore
from search.protocol import Search
from tests.support.command_line import Run, as_process
from tests.support.ledger.audit_rows import count
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer

WORDS = Manifest(splitter="whole", language="en", analyser="tests", embedder="none", dimension=0)


def at_home(home: Path, redis_url: str | None = None) -> Installation:
    return Installation(Settings(home=home), redis_url)


def store_of(installation: Installation) -> EmbeddedStore:
    return EmbeddedStore(installation.settings.corpus_dir)


def filled(installation: Installation, *texts: str, namespace: str = "law") -> int:
    """Index one document for each text; the generation."""
    store = store_of(installation)
    store.create(namespace, WORDS)
    generation = store.upsert(namespace, [document(text, text) for text in texts])
    store.close()
    return generation


def document(name: str, text: str) -> Document:
    return Document(name, "tests", name, (Passage(f"{name}#0", 0, text, end=len(text)),), {}, name, name)


def found(installation: Installation, text: str, namespace: str = "law") -> list[str]:
    store = store_of(installation)
    (ranking,) = store.search_text(namespace, [text], Search(depth=10_000))
    store.close()
    return sorted(hit.document_id for hit in ranking.hits)


@pytest.fixture
def home(tmp_path: Path) -> Installation:
    return at_home(tmp_path / "home")


@pytest.mark.slow
def test_a_backup_taken_while_documents_are_indexed_answers_the_same_elsewhere(
    pipeline: RunningPipeline, chorale: Run, alone: Run, tmp_path: Path
) -> None:
    """Pairs are indexed all the while: of each the backup has both or none."""
    asked = pipeline.client().retrieve("when may a tenant leave?", cache="bypass", timeout_s=20)
    store, stop, pairs = EmbeddedStore(pipeline.resources.settings.corpus_dir), threading.Event(), 0
    store.create("pairs", WORDS)

    def index() -> None:
        nonlocal pairs
        while not stop.is_set():
            store.upsert("pairs", [document(f"{side}{pairs}", "one of a pair") for side in "ab"])
            pairs += 1

    writer = threading.Thread(target=index)
    writer.start()
    try:
        while pairs < 3:
            stop.wait(0.01)
        called = as_process("backup", str(tmp_path / "backup"), "--json", **pipeline.environment)
        pairs_at_the_end = pairs
    finally:
        stop.set()
        writer.join()
        store.drop("pairs")
        store.close()
    assert called.returncode == 0, called.stderr
    assert pairs_at_the_end > 3, "nothing was indexed meanwhile"
    said = {state["name"]: state for state in json.loads(called.stdout)["namespaces"]}
    assert said["default"]["documents"] == 5
    assert said["pairs"]["documents"] >= 6
    assert said["pairs"]["documents"] % 2 == 0

    with RedisServer() as server:
        elsewhere = RunningPipeline(server)
        restored = alone("restore", str(tmp_path / "backup"), CHORALE_HOME=str(elsewhere.home))
        assert restored.returncode == 0, restored.stderr
        assert "with the audit trail" in restored.stdout
        installation = at_home(elsewhere.home)
        assert len(found(installation, "pair", "pairs")) in (
            said["pairs"]["documents"],
            # Committed, and not yet visible when the copy was made.
            said["pairs"]["documents"] + 2,
        )
        assert count(open_database(installation.settings.audit_database_url)) >= 1
        with elsewhere:
            answer = elsewhere.client().retrieve("when may a tenant leave?", cache="bypass", timeout_s=20)
    assert answer.status == asked.status == "complete"
    assert [(hit.document_id, hit.score) for hit in answer.hits] == [
        (hit.document_id, hit.score) for hit in asked.hits
    ]


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
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "home", "other"]

    filled(home, "bread")
    with pytest.raises(ServiceError, match=r"corpus\.db would be replaced"):
        put_back(home, backup, force=False)
    assert found(home, "lease rent bread") == ["bread", "lease", "rent"]
    put_back(home, backup, force=True)
    assert found(home, "lease rent bread") == ["lease", "rent"]


def test_near_duplicates_are_restored_with_the_documents(home: Installation, tmp_path: Path) -> None:
    def assigned(installation: Installation, name: str) -> str | None:
        with closing(store_of(installation)) as store:
            groups = NearDuplicates(lambda: store.near_duplicate_rows("law"))
            return groups.assign({name: " ".join(f"word{n}" for n in range(50))})[name]

    filled(home, "lease")
    assert assigned(home, "first") is None
    back_up(home, tmp_path / "backup", force=False)
    elsewhere = at_home(tmp_path / "elsewhere")
    put_back(elsewhere, tmp_path / "backup", force=False)
    assert assigned(elsewhere, "second") == "first"


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

    (state,) = store_of(installation).namespaces()
    assert (state.name, state.documents) == ("law", 1)
    assert state.generation > newest + 1
    assert int(redis.get("chorale:generation:law") or 0) == state.generation
    assert redis.get("chorale:generation:later") is None
    # A namespace of the name that is gone does not begin where the old one ended.
    assert filled(installation, "bread", namespace="later") > 2


def test_a_backup_that_was_changed_is_no_backup(home: Installation, tmp_path: Path) -> None:
    filled(home, "lease")
    backup = tmp_path / "backup"
    back_up(home, backup, force=False)
    whole = (backup / "corpus.db").read_bytes()
    (backup / "corpus.db").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ServiceError, match=r"is damaged: corpus\.db"):
        put_back(home, backup, force=True)
    (backup / "corpus.db").unlink()
    with pytest.raises(ServiceError, match=r"is damaged: corpus\.db"):
        put_back(home, backup, force=True)
    (backup / "corpus.db").write_bytes(whole)
    said = json.loads((backup / MANIFEST).read_text())
    (backup / MANIFEST).write_text(json.dumps({**said, "format": HOME_FORMAT + 1, "program": "7.0"}))
    with pytest.raises(ServiceError, match=r"restore it with version 7\.0 or newer"):
        put_back(home, backup, force=True)
    (backup / MANIFEST).write_text("{}")
    with pytest.raises(ServiceError, match="cannot be read"):
        put_back(home, backup, force=True)
    with pytest.raises(ServiceError, match="is no backup"):
        put_back(home, tmp_path, force=True)
    assert found(home, "lease") == ["lease"]


def test_a_restore_waits_for_nobody_who_uses_the_folder(
    pipeline: RunningPipeline, chorale: Run, home: Installation, tmp_path: Path
) -> None:
    filled(home, "lease")
    back_up(home, tmp_path / "backup", force=False)
    called = chorale("restore", str(tmp_path / "backup"), "--force")
    assert called.returncode == 1
    assert "4 processes work here" in called.stderr
    assert "stop them first" in called.stderr
    with store_of(home).exclusive("law"), pytest.raises(WriterBusy, match="is being written"):
        put_back(home, tmp_path / "backup", force=True)


def test_a_damaged_corpus_is_not_backed_up_and_can_be_replaced(home: Installation, tmp_path: Path) -> None:
    filled(home, "lease")
    back_up(home, tmp_path / "backup", force=False)
    file = home.settings.corpus_dir / "corpus.db"
    for wal in file.parent.glob("corpus.db-*"):
        wal.unlink()
    file.write_bytes(file.read_bytes()[:8192])
    with pytest.raises(BadIndex, match="is damaged"):
        back_up(home, tmp_path / "in-vain", force=False)
    assert not list(tmp_path.glob("in-vain*"))
    put_back(home, tmp_path / "backup", force=True)
    assert found(home, "lease") == ["lease"]


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "format").write_text(f"{HOME_FORMAT + 1}\n")
    return folder


@pytest.mark.parametrize("arguments", [["up"], ["worker", "bm25"]], ids=" ".join)
def test_a_newer_program_s_folder_is_left_alone(alone: Run, newer: Path, arguments: list[str]) -> None:
    called = alone(*arguments, CHORALE_HOME=str(newer), CHORALE_REDIS_URL="redis://127.0.0.1:1/0")
    assert called.returncode == 1
    assert called.stderr == (
        f"chorale: the folder {newer} has format {HOME_FORMAT + 1}, but the newest that this program knows is {HOME_FORMAT}: "
        "start the newer program that wrote it, or set CHORALE_HOME to another folder\n"
    )
    assert {path.name for path in newer.iterdir()} <= {"format", "up.lock"}
