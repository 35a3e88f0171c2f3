"""What docker-compose.yml starts, started by hand: the same words, variables and logins, at the tests' servers' addresses.

Redis is one of its own, with the logins that the file `deploy.redis_acl` makes, over TLS: at an address as docs/operate.md
has it, with an authority that the machine trusts; for Flower it stands in the address.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy
import yaml
from chorale_client import Chorale
from sqlalchemy.engine import make_url

from tests.support.ledger.audit_rows import count
from tests.support.pipelines.pipeline import CORPUS, PYTHONPATH, ROOT
from tests.support.run.reaper import OWNER
from tests.support.servers.databases import empty_database
from tests.support.servers.elasticsearch_server import corner
from tests.support.servers.redis_acl import SecuredRedis
from tests.support.servers.redis_server import free_port
from tests.support.servers.services import need
from tests.support.servers.weaviate_server import own_collection
from tests.support.waiting import until

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
BEATING = ("retrieve", "bm25", "vector", "hyde", "fusion", "index", "bulk", "sweeper")
READY_LIMIT_S = 100.0


class Composed:
    """Runs services as an engine would; `replaced` has the addresses inside of its network, and ours."""

    def __init__(
        self, folder: Path, dotenv: Mapping[str, str], replaced: Mapping[str, str], *, trusted: Path
    ) -> None:
        self.home = folder / "home"
        self.home.mkdir(mode=0o700)
        self.dotenv, self.replaced, self.trusted = dotenv, replaced, trusted
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def environment(self, name: str) -> dict[str, str]:
        variables = {key: self._filled(value) for key, value in SERVICES[name]["environment"].items()}
        if name == "redis-acl":
            variables["CHORALE_ON_END_QUEUES"] = "app"
        image = {"CHORALE_HOME": str(self.home), "PYTHONPATH": PYTHONPATH, "PYTHONSAFEPATH": "1"}
        machine = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "SSL_CERT_FILE": str(self.trusted),
            OWNER: os.environ[OWNER],
        }
        if name == "flower":
            # The other way to name an authority, which Flower must be told apart.
            del machine["SSL_CERT_FILE"]
            variables["CHORALE_REDIS_URL"] += f"?ssl_ca_certs={self.trusted}"
        return {**machine, **image, **variables}

    def words(self, name: str, words: Any = None) -> list[str]:
        command = SERVICES[name]["command"] if words is None else words
        filled = [self._filled(word) for word in (command.split() if isinstance(command, str) else command)]
        return [sys.executable if filled[0] == "python" else filled[0], *filled[1:]]

    def start(self, name: str) -> None:
        self.running[name] = subprocess.Popen(
            self.words(name), cwd="/", env=self.environment(name), start_new_session=True
        )

    def once(self, name: str, words: list[str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(name, words), cwd="/", env=self.environment(name), capture_output=True, text=True
        )

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`docker compose run --rm chorale …`"""
        return self.once("chorale", [*SERVICES["chorale"]["entrypoint"], *arguments])

    def end(self) -> dict[str, int]:
        """Told to stop, as `docker compose stop` does; what each ended with."""
        for process in self.running.values():
            process.terminate()
        codes = {}
        for name, process in self.running.items():
            try:
                codes[name] = process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                codes[name] = process.wait()
        self.running = {}
        return codes

    def _filled(self, text: str) -> str:
        """As compose does with `${NAME}`, `${NAME:-default}` and `${NAME:?complaint}`."""

        def value(match: re.Match[str]) -> str:
            name, sign, rest = match.groups()
            return self.dotenv[name] if self.dotenv.get(name) else {":-": rest}[sign]

        filled = re.sub(r"\$\{([A-Z_]+)(?:(:[-?])([^}]*))?\}", value, text)
        for inside, ours in self.replaced.items():
            filled = filled.replace(inside, ours)
        return filled


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    need("postgresql", "the audit tables of the clustered profile are there")
    with empty_database("postgresql", tmp_path_factory.mktemp("database")) as url:
        yield url


def as_nobody(database: str) -> str:
    """The same database, in which this login does not exist."""
    return make_url(database).set(username="nobody", password=None).render_as_string()


@pytest.fixture(scope="module")
def composed(
    secured: SecuredRedis, database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Composed]:
    folder = tmp_path_factory.mktemp("composed")
    texts = need("elasticsearch", "it has the texts of the clustered profile")
    with corner() as prefix, own_collection() as vectors:
        pipeline = (ROOT / "config" / "clustered.toml").read_text(encoding="utf-8")
        stores = {
            'url = "http://elasticsearch:9200"': f'prefix = "{prefix}", url = "{texts}"',
            'url = "http://weaviate:8080"': f'collection = "{vectors.collection}", url = "{vectors.url}"',
            "grpc_port = 50051": f"grpc_port = {vectors.grpc_port}",
            # These two let everybody in, and the second refuses who shows a key nevertheless.
            ', api_key_env = "WEAVIATE_API_KEY"': "",
        }
        for inside, ours in stores.items():
            assert inside in pipeline
            pipeline = pipeline.replace(inside, ours)
        file = folder / "clustered.toml"
        file.write_text(pipeline)
        dotenv = {
            "ELASTICSEARCH_PASSWORD": "unused-here",
            "FLOWER_BASIC_AUTH": "ada:lovelace",
            "POSTGRES_PASSWORD": "unused-here",
            "WEAVIATE_API_KEY": "unused-here",
            **{f"REDIS_{role.upper()}_PASSWORD": word for role, word in secured.passwords.items()},
        }
        replaced = {
            "/app/config/clustered.toml": str(file),
            "postgresql+psycopg://chorale:unused-here@postgresql:5432/chorale": database,
            "postgresql+psycopg://chorale@postgresql:5432/chorale": as_nobody(database),
            "redis://": "rediss://",
            "@redis:6379/0": f"@127.0.0.1:{secured.tls_port}/0",
            "--port=5555": f"--port={free_port()}",
            "--address=0.0.0.0": "--address=127.0.0.1",
        }
        made = Composed(folder, dotenv, replaced, trusted=secured.ca_file)
        try:
            yield made
        finally:
            made.end()


@pytest.fixture(scope="module")
def everything(composed: Composed, secured: SecuredRedis) -> Composed:
    """All services that last, ready."""
    for name in (*BEATING, "flower"):
        composed.start(name)
    with secured.client() as redis:

        def is_ready(name: str) -> bool:
            assert composed.running[name].poll() is None, f"{name} ended before it was ready"
            return b'"ready": true' in (redis.get(f"chorale:heartbeat:{name}") or b"")

        until(lambda: all(is_ready(name) for name in BEATING), READY_LIMIT_S)
    return composed


def test_the_logins_that_redis_starts_with_are_made_by_their_service(
    composed: Composed, secured: SecuredRedis, tmp_path: Path
) -> None:
    words = [word.replace("/acl", str(tmp_path)) for word in composed.words("redis-acl")]
    made = composed.once("redis-acl", words)
    assert (made.returncode, made.stderr) == (0, "")
    assert (tmp_path / "users.acl").read_text() == (secured.folder / "users.acl").read_text()


def test_documents_are_indexed_and_a_question_is_answered_by_every_branch(
    everything: Composed, secured: SecuredRedis, tmp_path: Path
) -> None:
    for name, (title, text) in CORPUS.items():
        (tmp_path / f"{name}.md").write_text(f"# {title}\n\n{text}\n")
    indexed = everything.command("index", str(tmp_path), "--namespace", "home", "--source", "home", "--json")
    assert indexed.returncode == 0, indexed.stderr
    assert json.loads(indexed.stdout)["added"] == len(CORPUS), indexed.stderr

    asking = Chorale(secured.caller_url)
    answer = asking.retrieve(
        "Who pays for repairs?", namespace="home", include=["metadata", "texts"], timeout_s=20
    )
    assert (answer.status, answer.degraded) == ("complete", ())
    assert answer.hits[0].document_id == "home/repairs.md"
    assert set(answer.hits[0].found_by) == {"bm25", "vector", "hyde"}
    assert CORPUS["repairs"][1] in (answer.hits[0].text or "")

    searched = everything.command("search", "Who pays for repairs?", "--namespace", "home")
    assert searched.returncode == 0, searched.stderr
    assert "repairs" in searched.stdout
    # Whatever the services and the operator did so far, their logins were enough for it.
    assert secured.denied() == []


def test_the_health_check_of_a_service_and_doctor_find_nothing_to_mend(everything: Composed) -> None:
    kind, *words = SERVICES["bm25"]["healthcheck"]["test"]
    assert kind == "CMD"
    for checked in (everything.once("bm25", words), everything.command("doctor")):
        assert (checked.returncode, checked.stderr) == (0, ""), checked.stdout


def test_the_answers_are_audited_in_postgresql(everything: Composed, database: str) -> None:
    engine = sqlalchemy.create_engine(database)
    assert until(lambda: count(engine))
    engine.dispose()


def test_flower_shows_the_workers_to_who_logs_in_and_to_nobody_else(everything: Composed) -> None:
    (port,) = re.findall(r"--port=(\d+)", " ".join(everything.words("flower")))
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as flower:

        def workers() -> list[str]:
            with suppress(httpx.TransportError):
                page = flower.get("/workers", params={"json": "1"}, auth=("ada", "lovelace"))
                return [worker["hostname"] for worker in page.json()["data"]]
            return []

        until(lambda: {name.partition("@")[0] for name in workers()} == set(BEATING), 60)
        assert flower.get("/workers").status_code == 401
        # Its login in Redis may not command workers.
        command = f"/api/worker/shutdown/{workers()[0]}"
        assert flower.post(command, auth=("ada", "lovelace")).status_code == 403
        # Flower has no option that closes this page; deploy/helm lets nobody reach it.
        metrics = flower.get("/metrics")
        assert (metrics.status_code, "repairs" in metrics.text) == (200, False)


def test_told_to_stop_every_service_ends_by_itself(everything: Composed) -> None:
    codes = everything.end()
    assert {name for name, code in codes.items() if code != 0} <= {"flower"}


def test_a_service_whose_database_refuses_its_login_does_not_become_ready_and_says_why(
    composed: Composed, database: str, tmp_path: Path
) -> None:
    """So `docker compose up --wait` fails, and the health checks name the reason."""
    wrong = make_url(database).set(password="wrong").render_as_string(hide_password=False)
    addresses = {inside: wrong if ours == database else ours for inside, ours in composed.replaced.items()}
    locked_out = Composed(tmp_path, composed.dotenv, addresses, trusted=composed.trusted)
    reasons = {"retrieve": "password authentication failed", "sweeper": "the audit trail's database"}
    try:
        for name in reasons:
            locked_out.start(name)

        def says(name: str, reason: str) -> bool:
            checked = locked_out.once(name, SERVICES[name]["healthcheck"]["test"][1:])
            # The whole installation may have a worker of the same name, which is ready.
            return checked.returncode == 1 and reason in checked.stderr

        for name, reason in reasons.items():
            until(partial(says, name, reason), READY_LIMIT_S)
    finally:
        locked_out.end()
