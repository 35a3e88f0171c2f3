"""What docker-compose.yml starts, started by hand: the same words, variables and logins, at the tests' servers' addresses.

Redis is one of its own, with the logins that the file `deploy.redis_acl` makes, over TLS: at an address as docs/operate.md
has it, with an authority that the machine trusts; for Flower it stands in the address.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy
import yaml
from chorale_client import Chorale
from sqlalchemy.engine import make_url

from tests.support.pipelines.pipeline import CORPUS, PYTHONPATH, ROOT
from tests.support.servers.elasticsearch_server import corner
from tests.support.servers.redis_acl import SecuredRedis, needs_tls
from tests.support.servers.redis_server import free_port
from tests.support.servers.services import need
from tests.support.servers.weaviate_server import own_collection

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
QUEUES = [f"chorale.{name}" for name in ("retrieve", "bm25", "vector", "hyde", "fusion", "index", "bulk")]
BEATING = ("retrieve", "bm25", "vector", "hyde", "fusion", "index", "bulk", "sweeper")
READY_LIMIT_S = 100.0


class Composed:
    """Runs services as an engine would; `replaced` has the addresses inside of its network, and ours."""

    def __init__(
        self, folder: Path, dotenv: Mapping[str, str], replaced: Mapping[str, str], *, trusted: Path
    ) -> None:
        self.home = folder / "home"
        self.home.mkdir(mode=0o700)
        self._dotenv, self._replaced, self._trusted = dotenv, replaced, trusted
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def environment(self, name: str) -> dict[str, str]:
        given = {key: self._filled(value) for key, value in SERVICES[name]["environment"].items()}
        if name == "redis-acl":
            given["CHORALE_ON_END_QUEUES"] = "app"
        image = {"CHORALE_HOME": str(self.home), "PYTHONPATH": PYTHONPATH, "PYTHONSAFEPATH": "1"}
        machine = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "SSL_CERT_FILE": str(self._trusted),
        }
        if name == "flower":
            # The other way to name an authority, which Flower must be told apart.
            del machine["SSL_CERT_FILE"]
            given["CHORALE_REDIS_URL"] += f"?ssl_ca_certs={self._trusted}"
        return {**machine, **image, **given}

    def words(self, name: str, words: Any = None) -> list[str]:
        found = SERVICES[name]["command"] if words is None else words
        filled = [self._filled(word) for word in (found.split() if isinstance(found, str) else found)]
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
                codes[name] = process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                codes[name] = process.wait()
        self.running = {}
        return codes

    def _filled(self, text: str) -> str:
        """As compose does with `${NAME}`, `${NAME:-default}` and `${NAME:?complaint}`."""

        def value(found: re.Match[str]) -> str:
            name, sign, rest = found.groups()
            return self._dotenv[name] if self._dotenv.get(name) else {":-": rest}[sign]

        filled = re.sub(r"\$\{([A-Z_]+)(?:(:[-?])([^}]*))?\}", value, text)
        for inside, ours in self._replaced.items():
            filled = filled.replace(inside, ours)
        return filled


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """A database of our own on the shared server."""
    url = make_url(need("postgresql", "the audit tables of the clustered profile are there"))
    name = f"chorale_{secrets.token_hex(6)}"
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(f"CREATE DATABASE {name}"))
        yield url.set(database=name).render_as_string(hide_password=False)
        connection.execute(sqlalchemy.text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


def of_nobody(database: str) -> str:
    """The same database, in which this login does not exist."""
    return make_url(database).set(username="nobody", password=None).render_as_string()


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredRedis]:
    needs_tls()
    with SecuredRedis() as server:
        yield server


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
            "postgresql+psycopg://chorale@postgresql:5432/chorale": of_nobody(database),
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
    until = time.monotonic() + READY_LIMIT_S
    with secured.client() as redis:
        for name in BEATING:
            while b'"ready": true' not in (redis.get(f"chorale:heartbeat:{name}") or b""):
                assert composed.running[name].poll() is None, f"{name} ended before it was ready"
                assert time.monotonic() < until, f"{name} was not ready in {READY_LIMIT_S:.0f} s"
                time.sleep(0.1)
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
    assert (json.loads(indexed.stdout)["added"], indexed.stderr) == (len(CORPUS), "")

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


def test_the_health_check_of_a_service_finds_it_healthy(everything: Composed) -> None:
    kind, *words = SERVICES["bm25"]["healthcheck"]["test"]
    assert kind == "CMD"
    checked = everything.once("bm25", words)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_answers_are_audited_in_postgresql(everything: Composed, database: str) -> None:
    engine = sqlalchemy.create_engine(database)
    until = time.monotonic() + 20
    rows: int | None = 0
    while not rows and time.monotonic() < until:
        time.sleep(0.1)
        with engine.connect() as connection:
            rows = connection.scalar(sqlalchemy.text("SELECT count(*) FROM chorale_request"))
    engine.dispose()
    assert rows


def test_flower_shows_the_workers_to_who_logs_in_and_to_nobody_else(everything: Composed) -> None:
    port = next(word for word in everything.words("flower") if word.startswith("--port=")).removeprefix(
        "--port="
    )
    address = f"http://127.0.0.1:{port}"
    until = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(f"{address}/healthcheck") as said:
                assert said.status == 200
            break
        except urllib.error.URLError:
            assert time.monotonic() < until
            time.sleep(0.2)
    assert httpx.get(f"{address}/workers").status_code == 401
    with httpx.Client(base_url=address, auth=("ada", "lovelace"), timeout=30) as ada:
        names: set[str] = set()
        while names != set(BEATING):
            assert time.monotonic() < until, names
            time.sleep(0.2)
            page = ada.get("/workers", params={"json": "1"})
            assert page.status_code == 200
            names = {one["hostname"].partition("@")[0] for one in page.json()["data"]}
        # Its login in Redis may not command workers.
        assert ada.post("/api/worker/shutdown/" + page.json()["data"][0]["hostname"]).status_code == 403
        lengths = ada.get("/api/queues/length")
    assert lengths.status_code == 200, lengths.text
    found = {one["name"]: one["messages"] for one in lengths.json()["active_queues"]}
    assert found
    assert found.items() <= dict.fromkeys(QUEUES, 0).items()
    # Flower has no option that closes this page; deploy/helm lets nobody reach it.
    metrics = httpx.get(f"{address}/metrics")
    assert (metrics.status_code, "repairs" in metrics.text) == (200, False)


def test_doctor_finds_nothing_to_mend(everything: Composed) -> None:
    looked = everything.command("doctor")
    assert (looked.returncode, looked.stderr) == (0, ""), looked.stdout
    assert "nothing to mend" in looked.stdout


def test_told_to_stop_every_service_ends_by_itself(everything: Composed) -> None:
    codes = everything.end()
    assert {name for name, code in codes.items() if code != 0} <= {"flower"}
