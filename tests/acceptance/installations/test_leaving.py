"""Leaving and coming back, as docs/start.md says: stop, remove a namespace, remove everything, change the version.

`first_home.tar.gz` is a home whose databases have the first schemas.  Its program had indexed the three documents of the page as `docs`, and
had answered one question.
"""

from __future__ import annotations

import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from cli.local.redis_server import is_free
from records.database import SCHEMA
from tests.support.code_blocks import CodeBlock
from tests.support.servers.redis_server import free_port
from tests.support.typed_pages import Desk, FirstTerminal, blocks_of, starts
from tests.support.waiting import until

FIRST_HOME = Path(__file__).with_name("first_home.tar.gz")
FIRST_SCHEMA = "0.1.0"
ITS_QUESTION = "6d48a950-368d-433b-80e6-a6fa7646d553"
HTTP_PORT, FLOWER_PORT = free_port(), free_port()
INSTALL = blocks_of("docs/start.md", before="## 2. Start everything")
INDEX, *_ = blocks_of("docs/start.md", after="## 3. Index documents")
REMOVE_NAMESPACE, REMOVE_ALL = blocks_of("docs/start.md", after="## 7. Leave", before="## Processes")
BACK_UP, UPDATE, GO_BACK = blocks_of("docs/start.md", after="## 6. Update", before="## 7. Leave")


def first_home(folder: Path) -> Desk:
    desk = Desk.in_folder(folder)
    desk.data_folder.mkdir(parents=True)
    with tarfile.open(FIRST_HOME) as files:
        files.extractall(desk.data_folder, filter="data")
    return desk


def type_there(desk: Desk, *blocks: CodeBlock, then: str = "") -> str:
    """What the second terminal prints, without its line breaks."""
    return " ".join(desk.type([*INSTALL, *blocks, CodeBlock("then", 1, "sh", then)]).split())


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return first_home(tmp_path_factory.mktemp("desk"))


@pytest.fixture(scope="module")
def terminal(desk: Desk) -> Iterator[FirstTerminal]:
    """The page's `chorale up`, on other ports than the page's, which another test may need now."""
    assert starts(UPDATE)
    options = f" --http-bind {HTTP_PORT} --flower-port {FLOWER_PORT} "
    with desk.first_terminal([*INSTALL, UPDATE], options=options) as terminal:
        yield terminal


def schema_of(desk: Desk) -> str:
    with closing(sqlite3.connect(desk.data_folder / "audit.db")) as trail:
        (revision,) = trail.execute("SELECT version_num FROM chorale_audit_version").fetchone()
    return str(revision)


@pytest.mark.limit_s(300)
@pytest.mark.usefixtures("terminal")
def test_an_update_finds_the_same_documents_and_questions_in_the_home(desk: Desk) -> None:
    assert schema_of(desk) == SCHEMA.newest
    texts = INDEX.code.partition("chorale index")[0].replace("my-docs", "docs")
    printed = type_there(
        desk,
        CodeBlock("the texts", 1, "sh", texts),
        then=f'chorale search "Who pays for repairs?" --namespace docs\n'
        f"chorale audit show {ITS_QUESTION}\n"
        "chorale index docs --namespace docs --rebuild\n"
        "chorale index docs --namespace docs\n",
    )
    assert "complete · 3 hits" in printed
    places = [printed.index(f"docs/{name}") for name in ("repairs.md", "notice.md", "deposit.txt")]
    assert places == sorted(places), "the order before the update"
    assert "3 added" in printed
    assert "0 added, 3 unchanged" in printed


@pytest.mark.limit_s(300)
@pytest.mark.usefixtures("terminal")
def test_a_namespace_is_removed_with_its_questions_and_made_anew(desk: Desk) -> None:
    printed = type_there(desk, REMOVE_NAMESPACE, then="chorale namespaces list")
    assert "docs: deleted, with 3 documents" in printed
    assert "of namespace docs: deleted from the trail" in printed
    assert "there are no namespaces yet" in printed
    question = b"Who pays for repairs?"
    assert [path for path in desk.data_folder.rglob("audit.db*") if question in path.read_bytes()] == []
    printed = type_there(desk, INDEX)
    assert "3 added" in printed
    assert "complete · 3 hits" in printed


@pytest.mark.limit_s(300)
def test_ctrl_c_and_two_commands_leave_no_process_no_port_and_no_file(
    desk: Desk, terminal: FirstTerminal
) -> None:
    processes = [psutil.Process(terminal.up.pid), *psutil.Process(terminal.up.pid).children(recursive=True)]

    def listening() -> set[int]:
        return {
            connection.laddr.port
            for process in processes
            for connection in process.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        }

    # Redis listens, too.
    until(lambda: {HTTP_PORT, FLOWER_PORT} < listening(), 60)
    ports = listening()
    terminal.stop()
    type_there(desk, REMOVE_ALL)
    assert [process for process in processes if process.is_running()] == []
    assert {port: is_free(port) for port in ports} == dict.fromkeys(ports, True)
    assert not desk.data_folder.exists()
    # The link stands for the clone's own .venv, which `make clean` removes.
    made = {".venv", "docs", "my-docs", "up.txt"}
    assert {path.name for path in desk.folder.iterdir() if any_file_of(path)} == made
    assert [process.pid for process in psutil.process_iter() if works_for(process, desk)] == []


def any_file_of(path: Path) -> bool:
    return path.is_file() or any(one.is_file() for one in path.rglob("*"))


def works_for(process: psutil.Process, desk: Desk) -> bool:
    with suppress(psutil.Error):
        return process.environ().get("HOME") == str(desk.folder)
    return False


@pytest.mark.limit_s(300)
def test_the_backup_of_a_home_is_put_in_its_place_again(tmp_path: Path) -> None:
    desk = first_home(tmp_path)
    made = type_there(desk, BACK_UP)
    assert "3 documents in 1 namespace, with the audit trail" in made
    assert "3 documents in 1 namespace, with the audit trail" in type_there(desk, GO_BACK)
    # Nothing has changed the trail of the backup.
    assert schema_of(desk) == FIRST_SCHEMA
    assert "documents 3 passages 3" in type_there(desk, then="chorale namespaces show docs")


def test_the_home_of_a_newer_version_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    desk = first_home(tmp_path)
    (desk.data_folder / "format").write_text("99\n")
    before = {path: path.read_bytes() for path in desk.data_folder.rglob("*") if path.is_file()}
    printed = type_there(desk, then="chorale namespaces list || chorale up || true")
    assert printed.count("has format 99, but the newest that this program knows is") == 2
    assert "Traceback" not in printed
    after = {path: path.read_bytes() for path in desk.data_folder.rglob("*") if path.is_file()}
    assert {path: text for path, text in after.items() if path.name != "up.lock"} == before
