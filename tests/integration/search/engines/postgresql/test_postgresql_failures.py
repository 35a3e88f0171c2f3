"""A PostgreSQL that is gone, silent, full, too old or without the rights gives one sentence, in time, without a password."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from models.errors import BadIndex, InvalidAnswer, NotConfigured, StoreTimeout, StoreUnavailable, Unauthorised
from models.retries import retried
from search.engines.postgresql.connection import Session
from search.protocol import Search
from tests.contracts.engine_faults import CALLS, DOCUMENTS, EngineFaults, Through, count, filled
from tests.contracts.store_documents import EAST, document, questions
from tests.support.servers.pgbouncer import pgbouncer
from tests.support.servers.postgresql_server import PostgresqlServer, opened
from tests.support.servers.services import missing
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.stores.known_index import index_of, revisions
from tests.support.waiting import until


@pytest.fixture(scope="module")
def database(server: PostgresqlServer) -> Iterator[str]:
    """Has the namespace `ns` of `filled`."""
    with server.database() as name, opened(server.url(name)) as store:
        filled(store)
        yield name


class TestPostgresqlFaults(EngineFaults):
    gone = " cannot be used: "
    lost_at = (b"version()", b"BEGIN", b"pear")
    """SQLAlchemy asks for the version on the first connection."""

    @pytest.fixture
    def place(self, server: PostgresqlServer) -> tuple[str, int]:
        return "127.0.0.1", server.port

    @pytest.fixture
    def through(self, server: PostgresqlServer, database: str, proxy: TcpProxy) -> Through:
        return partial(opened, server.url(database, port=proxy.port))

    def test_a_slow_statement_is_ended_by_the_server_and_its_connection_kept(
        self, through: Through, proxy: TcpProxy
    ) -> None:
        with through() as store:
            with pytest.raises(StoreTimeout, match=r"did not answer within 1 s"):
                store._connection.write(lambda session: session.execute("SELECT pg_sleep(60)"), 1)
            assert count(store) == DOCUMENTS
            assert proxy.accepted == 1


@pytest.mark.slow
def test_a_batch_that_a_killed_or_stopped_server_had_in_hand_is_there_whole_or_not_at_all() -> None:
    with (
        PostgresqlServer() as own,
        TcpProxy(("127.0.0.1", own.port)) as proxy,
        opened(own.url()) as reader,
        opened(own.url(port=proxy.port), write_timeout_s=1) as store,
    ):
        store.create(index_of())
        store.write(index_of(), [document("a", "pear", revision="1")], ())
        after = [document("a", "fig", revision="2"), document("b", "fig")]
        for harm, mend in ((own.pause, own.go_on), (own.kill, own.launch)):
            for moment in (b"INSERT INTO", b"COPY", b"DELETE FROM"):
                proxy.stalls_at = moment
                with ThreadPoolExecutor(1) as threads:
                    writing = threads.submit(store.write, index_of(), after, ())
                    until(lambda: proxy.is_stalled)
                    harm()
                    proxy.flow()
                    with pytest.raises((StoreTimeout, StoreUnavailable)):
                        writing.result()
                mend()
                until(lambda: count(reader) == 1)
                assert revisions(reader) == {"a": "1"}
        store.write(index_of(), after, ())
        assert revisions(reader) == {"a": "2", "b": "1"}


@pytest.mark.parametrize(
    ("state", "failure", "message", "attempts"),
    [
        ("53100", StoreUnavailable, "cannot be used", 1),
        ("40P01", StoreUnavailable, "cannot be used", 2),
        ("42501", Unauthorised, "does not grant us the right", 1),
        ("XX001", BadIndex, "has a damaged table", 1),
        ("22021", InvalidAnswer, "refuses a statement", 1),
    ],
)
def test_an_error_of_the_server_becomes_one_sentence_after_a_second_attempt_where_one_may_succeed(
    server: PostgresqlServer, state: str, failure: type[Exception], message: str, attempts: int
) -> None:
    made = []

    def fail(session: Session) -> None:
        made.append(session)
        session.execute(f"DO $$ BEGIN RAISE 'could not do it' USING ERRCODE = '{state}'; END $$".encode())

    with opened(server.url()) as store, pytest.raises(failure) as raised:
        store._connection.write(fail)
    assert str(raised.value) == f"PostgreSQL at {server.url()} {message}: could not do it"
    assert len(made) == attempts


def test_a_wrong_password_is_an_unauthorised_login_that_never_shows_the_password(
    server: PostgresqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.execute("CREATE ROLE guarded LOGIN PASSWORD 'right'")
    rules = server.data / "pg_hba.conf"
    rules.write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
    server.execute("SELECT pg_reload_conf()")
    for login in ("guarded:hunter2", "nobody_there:hunter2"):
        address = server.url(user=login).replace(":", "+psycopg:", 1)
        with opened(address) as store, pytest.raises(Unauthorised, match="refuses the login: ") as raised:
            store.has(index_of())
        assert "hunter2" not in f"{raised.value!r} {store!r} {vars(store._connection)} {caplog.text}"
    with opened(server.url(user="guarded:right")) as store:
        assert not store.has(index_of())


def test_a_database_without_a_usable_pgvector_is_refused_with_what_to_do_or_serves_words_alone(
    server: PostgresqlServer,
) -> None:
    server.execute("CREATE ROLE weak LOGIN")
    [library] = server.extensions.parents[2].rglob("vector.so")
    files = {
        server.extensions / "vector.control": 'extension "vector" is not available',
        library: 'could not access file "vector": No such file or directory',
    }
    with server.database() as name:
        server.execute("GRANT ALL ON SCHEMA public TO weak", name)

        def refused_with(why: str, user: str = "postgres") -> None:
            said = rf"0\.8 or newer \({why}\); .*`CREATE EXTENSION vector`"
            with opened(server.url(name, user=user)) as store, pytest.raises(NotConfigured, match=said):
                store.create(index_of())

        refused_with('permission denied to create extension "vector"', user="weak")
        for file, why in files.items():
            shutil.move(file, f"{file}.away")
            try:
                refused_with(why)
            finally:
                shutil.move(f"{file}.away", file)
        server.execute("CREATE EXTENSION vector", name)
        server.execute("UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'", name)
        refused_with(r"the database has 0\.7\.4")
        server.execute("DROP EXTENSION vector", name)
        with opened(server.url(name, user="weak"), vectors=False) as store:
            filled(store)
            assert count(store) == DOCUMENTS
            with pytest.raises(NotConfigured, match="declare the store with `vectors = true`"):
                store.search_vectors("ns", questions(EAST), Search(depth=1, timeout_s=30))


@pytest.mark.slow
def test_a_replica_is_searched_and_a_write_names_the_primary(server: PostgresqlServer, database: str) -> None:
    with PostgresqlServer(copy_of=server) as replica, opened(replica.url(database)) as store:
        until(lambda: count(store) == DOCUMENTS)
        with pytest.raises(StoreUnavailable, match="is read-only, as a replica is: name the primary"):
            CALLS["write"](store, 30)


def test_pgbouncer_may_give_each_transaction_another_connection(
    server: PostgresqlServer, database: str
) -> None:
    with (
        pgbouncer(server) as port,
        opened(server.url(database, port=port)) as store,
        ThreadPoolExecutor(8) as threads,
    ):
        retried(lambda: count(store), StoreUnavailable, pause_s=lambda _: 0.05, for_s=30)
        assert list(threads.map(lambda _: count(store), range(60))) == [DOCUMENTS] * 60
        CALLS["write"](store, 30)
        assert count(store) == DOCUMENTS


@pytest.fixture
def disk(server: PostgresqlServer) -> Iterator[tuple[Path, str]]:
    """A file system of 48 MB, and the name of a database there."""
    folder = server.folder / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size=48m,mode=700,uid={server.user}", "none", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        missing("without the right to mount a file system: run as root")
    try:
        server.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
        with server.database("TABLESPACE small") as name:
            yield folder, name
    finally:
        server.execute("DROP TABLESPACE IF EXISTS small")
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
def test_a_full_disk_is_named_keeps_the_last_whole_batch_and_takes_the_next_when_there_is_space(
    server: PostgresqlServer, disk: tuple[Path, str]
) -> None:
    folder, name = disk
    batch = [document(f"e{n}", " ".join(f"pear w{n}x{word}" for word in range(200))) for n in range(50)]
    with opened(server.url(name)) as store:
        filled(store)
        before, state = revisions(store), os.statvfs(folder)
        with (folder / "other").open("wb") as other:  # leaves 256 kB free
            os.posix_fallocate(other.fileno(), 0, state.f_bavail * state.f_frsize - 256 * 1024)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=r"could not extend file.*No space left on device"):
                store.write(index_of(), batch, ())
            assert (revisions(store), count(store)) == (before, DOCUMENTS)
        (folder / "other").unlink()
        store.write(index_of(), batch, ())
        assert len(revisions(store)) == count(store) == DOCUMENTS + 50
