"""An Elasticsearch that a test may kill and pause: the shared server's program with its own ports and folder."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from tests.support.servers.own_server import OwnServer
from tests.support.servers.redis_server import free_port
from tests.support.servers.services import missing, need

_HOME = "-Des.path.home="


class ElasticsearchServer(OwnServer):
    """Entering the context only launches the server; call `wait_ready` before using it."""

    start_limit_s = 120.0

    def __init__(self) -> None:
        self._home, self._java_home, self._user = _program()
        super().__init__("elasticsearch")
        self.port, self._transport_port = free_port(), free_port()
        self.ready = f"{self.url}/_cluster/health?wait_for_status=yellow&timeout=1s"
        if self._user is not None:  # it refuses to run as root
            shutil.chown(self.folder, self._user)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def launch(self) -> None:
        given = {
            "path.data": self.folder / "data",
            "path.logs": self.folder / "logs",
            "http.port": self.port,
            "transport.port": self._transport_port,
        }
        environment = {
            **os.environ,
            "ES_JAVA_OPTS": "-Xms256m -Xmx256m",
            "ES_JAVA_HOME": self._java_home,
            "HOME": str(self.folder),
        }
        self._run(
            [f"{self._home}/bin/elasticsearch", *(f"-E{name}={value}" for name, value in given.items())],
            env=environment,
            user=self._user,
            group=None if self._user is None else pwd.getpwnam(self._user).pw_gid,
            extra_groups=None if self._user is None else [],
        )


def _program() -> tuple[str, str, str | None]:
    """Returns the program's folder, its Java's folder, and its user if that is another one."""
    port = urlsplit(need("elasticsearch", "a server of its own is the shared one's program")).port
    for listening in psutil.net_connections("tcp"):
        if listening.status != psutil.CONN_LISTEN or listening.laddr[1:] != (port,) or not listening.pid:
            continue
        process = psutil.Process(listening.pid)
        # The command line of the server's launcher, its parent, names the folder too.
        said = [part for one in (process, process.parent()) if one is not None for part in one.cmdline()]
        homes = [part.removeprefix(_HOME) for part in said if part.startswith(_HOME)]
        if homes:
            user = process.username()
            is_other = user != psutil.Process().username()
            return homes[0], str(Path(process.exe()).parents[1]), user if is_other else None
    missing("the shared Elasticsearch runs elsewhere: these tests pause a server of their own")
    raise AssertionError("missing() does not return")
