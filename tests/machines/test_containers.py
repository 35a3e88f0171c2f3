"""The image, and docker-compose.yml as a whole: the steps of docs/operate.md, with podman in place of docker."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from deploy.redis_acl import ROLES
from tests.machines.asking import NAMESPACE
from tests.machines.caller import ANSWERS, Caller
from tests.machines.images import CHORALE, POSTGRESQL, REDIS, build_all, build_second
from tests.machines.podman import ROOT, Podman
from tests.support.servers.services import offered
from tests.support.waiting import until

LIMIT_S = 300.0
LARGEST_MB = 650
SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
QUEUES = ("retrieve", "bm25", "vector", "hyde", "fusion", "index", "bulk", "sweeper")
OURS = (*QUEUES, "flower", "http")
PASSWORDS = {
    name: secrets.token_hex(24)
    for name in ("POSTGRES_PASSWORD", "ELASTICSEARCH_PASSWORD", "WEAVIATE_API_KEY")
}
PASSWORDS |= {role.variable: secrets.token_hex(24) for role in ROLES.values()}
DOTENV = {
    **PASSWORDS,
    "FLOWER_BASIC_AUTH": "ada:lovelace-1843",
    "COMPOSE_PROFILES": "",
    "CHORALE_PIPELINE_FILE": "/app/config/postgresql.toml",
    "REDIS_IMAGE": REDIS,
    "POSTGRES_IMAGE": POSTGRESQL,
}

pytestmark = pytest.mark.limit_s(1800)


USES_WHAT_WAS_CUT = """
import sys
from pathlib import Path
import elasticsearch, flower, grpc, psycopg, sqlalchemy, tantivy, weaviate
import numpy as np
from config.settings import Settings
from inference.backends import load_embedder

settings = Settings()
load_embedder(settings.embedder, backend=settings.embedder_backend, threads=1).warm()
assert np.allclose(np.linalg.inv([[2.0]]), 0.5)
assert "onnx" not in sys.modules
# All bytecode is there: a process writes none.
caches = [module.__spec__.cached for module in list(sys.modules.values()) if getattr(module, "__spec__", None)]
compiled = [Path(name) for name in caches if name and name.startswith(("/app", "/opt"))]
assert len(compiled) > 1000
assert all(path.exists() for path in compiled)
print("used")
"""


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    with Podman(Path(os.environ["CHORALE_TEST_MACHINES"])) as podman:
        build_all(podman)
        podman.dotenv = DOTENV
        podman("tag", CHORALE, "chorale:latest")
        yield podman


def container(service: str) -> str:
    return f"chorale_{service}_1"


def cli(podman: Podman, service: str, *words: str) -> str:
    return podman("exec", container(service), "chorale", *words)


def test_the_image_is_small_and_has_neither_pip_nor_onnx_nor_a_user_with_rights(podman: Podman) -> None:
    [image] = json.loads(podman("image", "inspect", CHORALE))
    assert image["Size"] < LARGEST_MB * 1e6
    assert image["Config"]["User"] == "10001:10001"
    confined = (
        "run",
        "--rm",
        "--interactive",
        "--network=none",
        "--read-only",
        "--tmpfs=/tmp",
        "--cap-drop=ALL",
    )
    said = podman(*confined, CHORALE, "sh", text="id -u; command -v pip; python -c 'import pip' 2>&1; true")
    assert said.splitlines()[0] == "10001"
    assert "bin/pip" not in said
    assert "No module named 'pip'" in said
    assert podman(*confined, CHORALE, "python", "-", text=USES_WHAT_WAS_CUT) == "used\n"


def test_the_profile_small_is_one_container_that_answers(podman: Podman) -> None:
    podman.compose("up", "--detach", "--no-build", profile="small")
    try:
        assert podman("ps", "--format={{.Names}}").split() == [container("small")]
        until(lambda: podman.is_healthy(container("small")), LIMIT_S)
        cli(podman, "small", "index", "/documents", "--namespace", "docs")
        said = cli(podman, "small", "search", "How do I limit what a key may read?", "--namespace", "docs")
        assert re.search(r"^complete · 5 hits", said, re.MULTILINE), said
    finally:
        podman.compose("down", "--volumes", profile="small")


def says_wrong_password(podman: Podman, name: str) -> bool:
    """Whether this container's health does, by the command of docs/operate.md."""
    return "password authentication failed" in podman("inspect", "--format={{json .State.Health}}", name)


def test_up_wait_of_dockers_compose_fails_with_a_wrong_password_and_ends_with_the_right_one(
    podman: Podman,
) -> None:
    program = offered("compose", "CHORALE_TEST_COMPOSE names Docker's own `docker-compose`")
    right, up = podman.dotenv, ("up", "--detach", "--no-build", "--wait")
    try:
        assert podman.docker_compose(program, *up, "redis", "postgresql", profile="postgresql") == (0, "")
        podman.dotenv = {**right, "POSTGRES_PASSWORD": "wrong"}  # the database keeps its first password
        code, said = podman.docker_compose(program, *up, "retrieve", profile="postgresql")
        assert (code, said) == (1, "container chorale-retrieve-1 is unhealthy\n")
        assert says_wrong_password(podman, "chorale-retrieve-1")
        podman.dotenv = right
        assert podman.docker_compose(program, *up, "retrieve", profile="postgresql") == (0, "")
    finally:
        podman.dotenv = right
        podman.docker_compose(program, "down", "--volumes", profile="postgresql")


@pytest.fixture(scope="module")
def whole(podman: Podman) -> Iterator[Podman]:
    """All services of the profile `postgresql`, healthy, with documents."""
    podman.compose("up", "--detach", "--no-build", profile="postgresql")
    try:
        for name in ("redis", "postgresql", *OURS):
            until(lambda name=name: podman.is_healthy(container(name)), LIMIT_S)  # type: ignore[misc]
        yield podman
    finally:
        podman.compose("down", "--volumes", profile="postgresql")


def operator(podman: Podman, *words: str) -> str:
    """`docker compose run --rm chorale WORDS`, with a folder of documents.

    podman-compose would end without a word: stores of other profiles, which `required: false` names, are missing to it.
    """
    mount = f"--volume={ROOT / 'docs' / 'guides'}:/documents:ro"
    return podman.compose(
        "--profile=command", "run", "--rm", "--no-deps", "-T", mount, "chorale", *words, profile="postgresql"
    )


def redis_url() -> str:
    return f"redis://caller:{PASSWORDS['REDIS_CALLER_PASSWORD']}@127.0.0.1:6379/0"


def test_every_service_becomes_healthy_and_documents_are_indexed_and_searched(whole: Podman) -> None:
    operator(whole, "index", "/documents", "--namespace", NAMESPACE)
    said = operator(whole, "search", "How do I limit what a key may read?", "--namespace", NAMESPACE)
    assert re.search(r"^complete · 5 hits", said, re.MULTILINE), said
    assert "nothing to mend" in operator(whole, "doctor")


def replace(podman: Podman, service: str) -> None:
    podman.compose(
        "up", "--detach", "--no-build", "--no-deps", "--force-recreate", service, profile="postgresql"
    )


def recreate(podman: Podman, service: str) -> None:
    replace(podman, service)
    until(lambda: podman.is_healthy(container(service)), LIMIT_S)


def test_a_service_with_a_wrong_password_does_not_become_healthy_and_its_health_names_the_password(
    whole: Podman,
) -> None:
    """`docker compose up --wait` waits for this health, and fails without it."""
    right = whole.dotenv
    whole.dotenv = {**right, "POSTGRES_PASSWORD": "wrong"}
    try:
        replace(whole, "retrieve")

        def says_why() -> bool:
            if whole.is_healthy(container("retrieve")):
                return False  # the worker before this one has said so
            return says_wrong_password(whole, container("retrieve"))

        until(says_why, LIMIT_S)
    finally:
        whole.dotenv = right
        recreate(whole, "retrieve")


def test_a_killed_container_costs_no_answer_and_comes_back(whole: Podman) -> None:
    # podman-compose writes `depends_on` as `--requires`: podman then restarts no container while `redis-acl`, which has ended, is down.
    recreate(whole, "bm25")
    with Caller(whole.entered(), redis_url(), per_second=4, limits_s=[10]) as caller:
        until(lambda: caller.has_printed(10), LIMIT_S)
        first = whole("inspect", "--format={{.State.Pid}}", container("bm25")).strip()
        whole.inside("kill", "-KILL", first)
        until(
            lambda: (
                whole("inspect", "--format={{.State.Pid}}", container("bm25")).strip() not in (first, "0")
            ),
            LIMIT_S,
        )
        until(lambda: whole.is_healthy(container("bm25")) and caller.has_printed(40), LIMIT_S)
    assert caller.outcomes().keys() <= ANSWERS, caller.outcomes()
    assert {one.detail.partition(":")[0] for one in caller.requests} <= {"", "search.bm25"}
    print(caller.lateness())
    said = operator(whole, "search", "How do I limit what a key may read?", "--namespace", NAMESPACE)
    assert re.search(r"^complete · ", said, re.MULTILINE), said


def test_an_update_to_a_second_image_fails_no_request(whole: Podman) -> None:
    build_second(whole)
    whole("tag", CHORALE, "chorale:latest")
    with Caller(whole.entered(), redis_url(), per_second=4, limits_s=[60]) as caller:
        until(lambda: caller.has_printed(1), LIMIT_S)
        for name in OURS:
            recreate(whole, name)
            assert whole("exec", container(name), "printenv", "SECOND_IMAGE") == "yes\n"
    assert caller.outcomes().keys() <= ANSWERS, caller.outcomes()
    assert len(caller.requests) >= 20
