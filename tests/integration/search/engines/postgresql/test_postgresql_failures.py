"""A PostgreSQL that is gone, silent, full, too old or without the rights gives one sentence, in time, without a password."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from models.errors import (
    BadIndex,
    InvalidAnswer,
    NotConfigured,
    StageFailure,
    StoreTimeout,
    StoreUnavailable,
    Unauthorised,
)
from search.engines.postgresql.store import PostgresqlStore
from search.kinds import open_postgresql
from search.protocol import Search
from tests.contracts.store_documents import EAST, document, questions
from tests.support.servers.own_server import free_ports
from tests.support.servers.postgresql_server import PostgresqlServer, opened
from tests.support.servers.services import missing
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.stores.known_index import index_of, revisions
from tests.support.waiting import until

PASSWORD = "hunter2"


def count(store: PostgresqlStore, timeout_s: float = 30) -> int:
    (ranking,) = store.search_text("ns", ["pear"], Search(depth=1_000, timeout_s=timeout_s))
    return len(ranking.hits)


CALLS: dict[str, Callable[[PostgresqlStore, float], object]] = {
    "search_text": lambda store, limit_s: count(store, timeout_s=limit_s),
    "search_vectors": lambda store, limit_s: store.search_vectors(
        "ns", questions(EAST), Search(depth=1, timeout_s=limit_s)
    ),
    "score_text": lambda store, limit_s: store.score_text("ns", ["pear"], [["d0#0"]], timeout_s=limit_s),
    "has": lambda store, _: store.has(index_of()),
    "entries": lambda store, _: list(store.entries(index_of())),
    "write": lambda store, _: store.write(index_of(), [document("d0", "pear")], ()),
    "drop": lambda store, _: store.drop(index_of("another")),
}


@pytest.fixture(scope="module")
def database(server: PostgresqlServer) -> Iterator[str]:
    """Has a namespace `ns` of 20 documents."""
    with server.database() as name, opened(server.url(name)) as store:
        store.create(index_of())
        store.write(index_of(), [document(f"d{n}", "pear") for n in range(20)], ())
        yield name


@pytest.fixture
def proxy(server: PostgresqlServer) -> Iterator[TcpProxy]:
    with TcpProxy(("127.0.0.1", server.port)) as proxy:
        yield proxy


def test_a_connection_is_reused_and_a_broken_one_replaced(
    server: PostgresqlServer, database: str, proxy: TcpProxy
) -> None:
    with opened(server.url(database, port=proxy.port)) as store:
        assert [count(store) for _ in range(5)] == [20] * 5
        assert proxy.accepted == 1
        for _ in range(3):
            proxy.cut()
            assert count(store) == 20


def test_a_server_that_is_gone_is_unavailable_before_the_time_is_over(
    server: PostgresqlServer, database: str, proxy: TcpProxy
) -> None:
    with opened(server.url(database, port=proxy.port), timeout_s=30) as store:
        count(store)
        proxy.is_refusing = True
        proxy.cut()
        for call in CALLS.values():
            with pytest.raises(StoreUnavailable, match=rf":{proxy.port}.* cannot be used: "):
                call(store, 30)
        proxy.is_refusing = False
        assert count(store) == 20


def test_a_silent_server_costs_no_more_than_the_time_given_and_keeps_no_thread(
    server: PostgresqlServer, database: str, proxy: TcpProxy
) -> None:
    options = {"timeout_s": 0.5, "write_timeout_s": 0.5, "connections": 2}
    with opened(server.url(database, port=proxy.port), **options) as store:
        count(store)
        proxy.stall()
        for name, call in CALLS.items():
            with pytest.raises(
                StoreTimeout, match=r"did not answer within 0\.5 s|came free in time"
            ) as raised:
                call(store, 0.5)
            assert raised.value.reason == "timeout", name
        proxy.flow()
        assert count(store) == 20
        # A balancer has forgotten the idle connections, and answers nothing on them any more.
        proxy.drop()
        for _ in range(3):
            with suppress(StoreTimeout):
                count(store, timeout_s=0.5)
        assert count(store) == 20


def test_a_slow_statement_is_ended_by_the_server_and_its_connection_kept(
    server: PostgresqlServer, database: str, proxy: TcpProxy
) -> None:
    with opened(server.url(database, port=proxy.port)) as store:
        connection = store._connection
        with pytest.raises(StoreTimeout, match=r"did not answer within 2 s"):
            connection.read(lambda session: session.execute("SELECT pg_sleep(60)"), connection.deadline(2))
        assert count(store) == 20
        assert proxy.accepted == 1


def test_threads_that_wait_for_a_connection_wait_no_longer_than_their_time(
    server: PostgresqlServer, database: str, proxy: TcpProxy
) -> None:
    url = server.url(database, port=proxy.port)
    with opened(url, connections=1) as store, ThreadPoolExecutor(1) as threads:
        count(store)
        proxy.stall()
        first = threads.submit(count, store, 60)
        until(lambda: store._connection._threads._work_queue.empty())
        with pytest.raises(StoreTimeout, match="raise the store's `connections`"):
            count(store, timeout_s=0.5)
        proxy.flow()
        assert first.result() == 20


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
            for moment in (b"DELETE FROM", b"COPY", b"chorale_engine SET"):
                proxy.stalls_at = moment
                with ThreadPoolExecutor(1) as threads:
                    writing = threads.submit(store.write, index_of(), after, ())
                    until(lambda: proxy.is_stalled)
                    harm()
                    proxy.stalls_at = None
                    proxy.flow()
                    with pytest.raises((StoreTimeout, StoreUnavailable)):
                        writing.result()
                mend()
                until(lambda: count(reader) == 1)
                assert revisions(reader) == {"a": "1"}
        store.write(index_of(), after, ())
        assert revisions(reader) == {"a": "2", "b": "1"}


RAISED = """DO $$ BEGIN RAISE EXCEPTION 'could not do it' USING ERRCODE = '{}'; END $$"""


@pytest.mark.parametrize(
    ("state", "failure", "message"),
    [
        ("53100", StoreUnavailable, "has no space left: could not do it"),
        ("53300", StoreUnavailable, "cannot be used: could not do it"),
        ("40P01", StoreUnavailable, "cannot be used: could not do it"),
        ("42501", Unauthorised, "does not grant us the right: could not do it"),
        ("XX001", BadIndex, "has a damaged table: could not do it"),
        ("22021", InvalidAnswer, "refuses a statement: could not do it"),
    ],
)
def test_an_error_of_the_server_becomes_one_sentence(
    server: PostgresqlServer, state: str, failure: type[StageFailure], message: str
) -> None:
    with opened(server.url()) as store:
        with pytest.raises(failure, match=f"^PostgreSQL at .* {message}$") as raised:
            store._connection.write(lambda session: session.execute(RAISED.format(state).encode()))
        assert "\n" not in str(raised.value)


def test_a_wrong_password_is_an_unauthorised_login_that_never_shows_the_password(
    server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server.execute("CREATE ROLE guarded LOGIN PASSWORD 'right'")
    rules = Path(server.data / "pg_hba.conf")
    rules.write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
    server.execute("SELECT pg_reload_conf()")
    address = f"postgresql+psycopg://guarded:{{}}@127.0.0.1:{server.port}/postgres\n"
    for password, user in ((PASSWORD, "guarded"), (PASSWORD, "nobody_there")):
        monkeypatch.setenv("CHORALE_DATABASE_URL", address.format(password).replace("guarded", user))
        store = open_postgresql("all", {})
        with pytest.raises(Unauthorised, match="refuses the login: ") as raised:
            store.has(index_of())
        store.close()
        assert PASSWORD not in f"{raised.value!r} {store!r} {vars(store._connection)} {caplog.text}"
    monkeypatch.setenv("CHORALE_DATABASE_URL", address.format("right"))
    store = open_postgresql("all", {})
    assert not store.has(index_of())
    store.close()


@pytest.mark.parametrize(
    "url", ["", "no address", "mysql://host/name", f"postgresql://me:{PASSWORD}@host:54x/name"]
)
def test_a_variable_without_an_address_of_postgresql_is_named(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_DATABASE", url)
    with pytest.raises(NotConfigured, match="OUR_DATABASE") as raised:
        open_postgresql("all", {"url_env": "OUR_DATABASE"})
    assert PASSWORD not in str(raised.value)


def test_a_database_without_a_usable_pgvector_is_refused_with_what_to_do_or_serves_words_alone(
    server: PostgresqlServer,
) -> None:
    server.execute("CREATE ROLE weak LOGIN")
    control = server.extensions / "vector.control"
    with server.database() as name:
        server.execute("GRANT ALL ON SCHEMA public TO weak", name)
        with (
            opened(server.url(name, user="weak")) as store,
            pytest.raises(NotConfigured, match="let an administrator run `CREATE EXTENSION vector`"),
        ):
            store.create(index_of())
        with opened(server.url(name)) as store:
            shutil.move(control, f"{control}.away")
            try:
                with pytest.raises(NotConfigured, match="the server has no pgvector"):
                    store.create(index_of())
            finally:
                shutil.move(f"{control}.away", control)
            server.execute("CREATE EXTENSION vector", name)
            server.execute("UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'", name)
            with pytest.raises(NotConfigured, match=r"pgvector 0\.7\.4.*ALTER EXTENSION vector UPDATE"):
                store.create(index_of())
            assert not store.has(index_of())
        server.execute("DROP EXTENSION vector", name)
        with opened(server.url(name, user="weak"), vectors=False) as store:
            store.create(index_of())
            store.write(index_of(), [document("a", "pear")], ())
            assert count(store) == 1
            with pytest.raises(NotConfigured, match="declare the store with `vectors = true`"):
                store.search_vectors("ns", questions(EAST), Search(depth=1, timeout_s=30))


@pytest.mark.slow
def test_a_replica_is_searched_and_a_write_names_the_primary(server: PostgresqlServer, database: str) -> None:
    with PostgresqlServer(copy_of=server) as replica, opened(replica.url(database)) as store:
        until(lambda: count(store) == 20)
        for call in ("write", "drop"):
            with pytest.raises(StoreUnavailable, match="is read-only, as a replica is: name the primary"):
                CALLS[call](store, 30)


def test_pgbouncer_may_give_each_transaction_another_connection(
    server: PostgresqlServer, database: str
) -> None:
    program = shutil.which("pgbouncer", path="/usr/bin:/usr/sbin")
    if program is None:
        missing("without pgbouncer: a package of this name has it")
    [port] = free_ports(1)
    settings = server.folder / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n* = host=127.0.0.1 port={server.port} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 2\n"
        "server_round_robin = 1\n"
    )
    process = subprocess.Popen([str(program), str(settings)], stderr=subprocess.DEVNULL, user=server.user)
    try:
        with opened(server.url(database, port=port)) as store, ThreadPoolExecutor(8) as threads:
            until(lambda: not isinstance(answer(store), StoreUnavailable))
            assert list(threads.map(lambda _: count(store), range(60))) == [20] * 60
            store.write(index_of(), [document("d0", "pear")], ())
            assert count(store) == 20
    finally:
        process.kill()
        process.wait()


def answer(store: PostgresqlStore) -> object:
    try:
        return count(store)
    except StageFailure as failure:
        return failure
