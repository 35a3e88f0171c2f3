"""A pgbouncer in transaction mode, which may give each transaction another connection."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.servers.own_server import free_ports
from tests.support.servers.postgresql_server import PostgresqlServer
from tests.support.servers.services import missing


@contextmanager
def pgbouncer(server: PostgresqlServer) -> Iterator[int]:
    """Yields its port; it may not listen yet."""
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
    with subprocess.Popen([str(program), settings], stderr=subprocess.DEVNULL, user=server.user) as process:
        try:
            yield port
        finally:
            process.kill()
