"""The tests read docker-compose.yml and Dockerfile, without a container engine."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from celery.bin.celery import celery as celery_command

from cli.local.servers import OPTIONS
from config.settings import Settings
from deploy.redis_acl import ROLES, SHORTEST_PASSWORD
from tasks.wiring.pipeline import load_pipeline
from tests.support.command_line import parse

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
EXAMPLE = (ROOT / ".env.example").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ENGINES = {"redis", "elasticsearch", "weaviate", "postgresql"}
OURS = {name: service for name, service in SERVICES.items() if name not in ENGINES}
READERS = {name: service for name, service in OURS.items() if name not in ("redis-acl", "small")}
"""Our services that read settings and the pipeline of several machines."""
PIPELINE = load_pipeline(ROOT / "config" / "clustered.toml")


def words(service: dict[str, Any]) -> list[str]:
    command = service["command"]
    return command.split() if isinstance(command, str) else command


def filled(text: str, **dotenv: str) -> str:
    """Replaces `${NAME}`, `${NAME:-default}` and `${NAME:?complaint}` as compose does."""
    return re.sub(
        r"\$\{([A-Z_]+)(?::-([^}]*)|:\?[^}]*)?\}", lambda match: dotenv.get(match[1]) or match[2] or "", text
    )


POSTGRES, TEXTS, VECTORS = "POSTGRES_PASSWORD", "ELASTICSEARCH_PASSWORD", "WEAVIATE_API_KEY"
WORKER = {"REDIS_WORKER_PASSWORD", "CHORALE_SIGNING_KEY"}
WEBHOOKS, MODELS = "CHORALE_WEBHOOK_SECRET", "models.env"
SECRETS: dict[str, set[str]] = {
    "redis-acl": {role.variable for role in ROLES.values()},
    "redis": set(),
    "elasticsearch": {TEXTS},
    "weaviate": {VECTORS},
    "postgresql": {POSTGRES},
    "retrieve": {*WORKER, POSTGRES},
    "bm25": {*WORKER, POSTGRES, TEXTS},
    "vector": {*WORKER, POSTGRES, VECTORS},
    "hyde": {*WORKER, POSTGRES, TEXTS, VECTORS, MODELS},
    "fusion": {*WORKER, POSTGRES, TEXTS, VECTORS},
    "index": {*WORKER, POSTGRES, TEXTS, VECTORS},
    "bulk": {*WORKER, POSTGRES, TEXTS, VECTORS, MODELS},
    "sweeper": {"REDIS_SWEEPER_PASSWORD", "CHORALE_SIGNING_KEY", POSTGRES, WEBHOOKS},
    "flower": {"REDIS_FLOWER_PASSWORD", "FLOWER_BASIC_AUTH"},
    "http": {"REDIS_HTTP_PASSWORD", POSTGRES, WEBHOOKS},
    "small": {MODELS},
    "chorale": {"REDIS_OPERATOR_PASSWORD", POSTGRES, TEXTS, VECTORS, WEBHOOKS, MODELS},
}
"""What each service is given: secret variables of .env, and the file with the keys of language models."""


def test_a_service_gets_the_secrets_that_it_needs_and_no_others() -> None:
    secrets: dict[str, set[str]] = {}
    for name, service in SERVICES.items():
        variables = set(re.findall(r"\$\{([A-Z_]+)", yaml.safe_dump(service)))
        files = {file["path"] for file in service.get("env_file", [])}
        secrets[name] = {one for one in variables if re.search(r"PASSWORD|KEY|SECRET|AUTH", one)}
        secrets[name] |= files - {"chorale.env"}
    assert secrets == SECRETS


def test_no_two_maps_that_are_merged_have_a_key_in_common() -> None:
    merged = [
        value.value
        for node in _nodes(yaml.compose(TEXT))
        if isinstance(node, yaml.MappingNode)
        for key, value in node.value
        if key.value == "<<" and isinstance(value, yaml.SequenceNode)
    ]
    assert merged
    for maps in merged:
        keys = [key.value for one in maps for key, _ in one.value]
        assert len(keys) == len(set(keys)), sorted(keys)


@pytest.mark.slow
def test_docker_s_reader_merges_the_maps_of_each_service_as_pyyaml_does() -> None:
    if not shutil.which("go"):
        pytest.skip("without Go: docker's reader of compose files is built from its source")
    reader = "github.com/compose-spec/compose-go/v2/cmd@v2.16.2"
    unchanged = [
        f"-no-{step}" for step in ("interpolation", "path-resolution", "normalization", "consistency")
    ]
    call = ["go", "run", reader, *unchanged, "-format=json", "docker-compose.yml"]
    read = json.loads(subprocess.run(call, cwd=ROOT, check=True, capture_output=True).stdout)["services"]
    in_full = {"depends_on", "volumes"}  # it adds what the file leaves out

    def compared(services: dict[str, dict[str, Any]]) -> dict[str, Any]:
        return {
            name: {key: value for key, value in service.items() if key not in in_full}
            for name, service in services.items()
        }

    assert compared(read) == compared(SERVICES)


def _nodes(node: yaml.Node | None) -> Iterator[yaml.Node]:
    if node is not None:
        yield node
    for child in node.value if isinstance(node, yaml.CollectionNode) else ():
        for inner in child if isinstance(child, tuple) else [child]:
            yield from _nodes(inner)


def test_no_password_has_a_default() -> None:
    secrets = dict(re.findall(r"^(\w*(?:PASSWORD|KEY|AUTH|SECRET))=(.*)$", EXAMPLE, re.MULTILINE))
    assert secrets == dict.fromkeys(set().union(*SECRETS.values()) - {MODELS}, "")


def test_every_queue_of_the_pipeline_has_a_service() -> None:
    served = {
        word for service in OURS.values() for word in words(service) if re.fullmatch(r"chorale\.\w+", word)
    }
    assert served == set(PIPELINE.queues)


def test_the_profile_postgresql_starts_no_other_engine_and_has_the_queues_of_its_pipeline() -> None:
    assert {name for name, service in SERVICES.items() if service.get("profiles") == ["engines"]} == {
        "elasticsearch",
        "weaviate",
    }
    assert re.search("^COMPOSE_PROFILES=engines$", EXAMPLE, re.MULTILINE)
    for service in READERS.values():
        needs = service["depends_on"]
        assert {name for name in needs if not needs[name].get("required", True)} == {
            "elasticsearch",
            "weaviate",
        }
        # Its stores have no other address.
        assert "CHORALE_DATABASE_URL" in service["environment"]
    alone = load_pipeline(ROOT / "config" / "postgresql.toml")
    assert {store.kind for store in alone.stores.values()} == {"postgresql"}
    assert set(alone.queues) == set(PIPELINE.queues)


def started(profile: str) -> set[str]:
    """What `docker compose --profile PROFILE up` starts: what has no profile, or this one."""
    return {name for name, service in SERVICES.items() if profile in service.get("profiles", [profile])}


def test_the_profile_small_starts_the_embedded_profile_in_one_container_beside_which_nothing_changes() -> (
    None
):
    assert started("small") == {"small"}
    assert started("engines") == SERVICES.keys() - {"small", "chorale"}
    assert started("postgresql") == started("engines") - {"elasticsearch", "weaviate"}
    small = SERVICES["small"]
    # The container has no address of a server, and waits for no other service: `chorale up` starts its own Redis.
    assert not {name for name in small["environment"] if name.endswith("_URL") or "PIPELINE" in name}
    assert "depends_on" not in small
    assert words(small)[:4] == ["python", "-m", "cli", "up"]
    # The container has a volume of its own; the documents of the workers are in PostgreSQL.
    assert "small:/var/lib/chorale" in small["volumes"]
    assert "data:/var/lib/chorale" in SERVICES["index"]["volumes"]


def test_one_command_writes_the_logins_of_a_new_installation_and_leaves_those_of_an_older_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "deploy").mkdir()
    for name in (".env.example", "deploy/dotenv.sh"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    write = ["sh", str(tmp_path / "deploy" / "dotenv.sh")]
    subprocess.run(write, check=True)
    dotenv = tmp_path / ".env"
    text = dotenv.read_text("utf-8")
    values = dict(line.split("=", 1) for line in text.splitlines() if re.match("[A-Z]", line))
    required = set(re.findall(r"\$\{([A-Z_]+):\?", TEXT))
    assert {name for name in required if len(values[name]) < SHORTEST_PASSWORD} == set()
    assert len({values[name] for name in required}) == len(required)
    assert re.fullmatch("[a-z]+:[0-9a-f]{48}", values["FLOWER_BASIC_AUTH"])
    # The other lines are those of the example, and only this user can read the file.
    assert re.sub("=([a-z]+:)?[0-9a-f]{48}$", "=", text, flags=re.MULTILINE) == EXAMPLE
    assert dotenv.stat().st_mode & 0o777 == 0o600
    subprocess.run(write, check=True)
    assert dotenv.read_text("utf-8") == text


def test_the_command_of_each_service_exists() -> None:
    for service in OURS.values():
        if words(service)[:3] == ["python", "-m", "cli"]:
            parse(words(service)[3:])
    assert words(SERVICES["redis-acl"]) == ["python", "-m", "deploy.redis_acl", "/acl/users.acl"]
    assert "flower" in celery_command.commands
    flower = words(SERVICES["flower"])
    assert flower[:4] == ["celery", "-A", "tasks.app", "flower"]
    # It shows the same as under `chorale up`.
    assert tuple(flower[-len(OPTIONS) :]) == OPTIONS


def test_every_container_is_confined() -> None:
    for name, service in SERVICES.items():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert re.fullmatch(r"\d+g|\$\{[A-Z_]+:-\d+g\}", service["mem_limit"])
        # Elasticsearch writes its own configuration, and its image is not root; Weaviate's volume belongs to root.
        assert name in ("elasticsearch", "weaviate") or service["read_only"]
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE)
    assert "root" not in (SERVICES["redis"]["user"], SERVICES["postgresql"]["user"])


def test_no_port_is_published_beyond_this_machine_and_every_engine_requires_a_login() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == 4
    assert all(re.match(r"\$\{[A-Z_]+:-127\.0\.0\.1:\d+\}:\d+$", port) for port in ports)
    assert SERVICES["flower"]["environment"]["FLOWER_BASIC_AUTH"].startswith("${FLOWER_BASIC_AUTH:?")
    assert SERVICES["elasticsearch"]["environment"]["xpack.security.enabled"] == "true"
    assert SERVICES["weaviate"]["environment"]["AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED"] == "false"
    # Flower without a container listens on this machine only, too.
    (line,) = re.findall(r"celery -A tasks\.app flower.*", PAGE)
    assert "--address=127.0.0.1" in line


def test_every_service_logs_in_to_redis_as_its_own_role() -> None:
    own = {"sweeper": "sweeper", "flower": "flower", "http": "http", "chorale": "operator"}
    for name, service in READERS.items():
        role = own.get(name, "worker")
        url = service["environment"]["CHORALE_REDIS_URL"]
        assert re.fullmatch(rf"redis://{role}:\$\{{{ROLES[role].variable}(:\?[^}}]*)?\}}@redis:6379/0", url)


def test_the_logins_of_redis_are_written_before_it_starts_by_its_own_user() -> None:
    writer, redis = SERVICES["redis-acl"], SERVICES["redis"]
    assert {role.variable for role in ROLES.values()} <= writer["environment"].keys()
    assert writer["volumes"] == ["logins:/acl"]
    assert "--aclfile /acl/users.acl" in redis["command"]
    assert "logins:/acl:ro" in redis["volumes"]
    # The file is for its owner alone; a new volume gets the owner of this folder in the image.
    assert writer["user"] == redis["user"] == "999:1000"
    assert re.search(r"install -d -o 999 -g 1000 -m 0700 /acl$", DOCKERFILE, re.MULTILINE)
    # A new password changes redis-acl, and Redis restarts after it, because it reads the file only at start.
    written = {"condition": "service_completed_successfully", "restart": True}
    assert redis["depends_on"] == {"redis-acl": written}


def test_redis_keeps_everything_evicts_nothing_and_has_twice_the_memory_of_its_data() -> None:
    redis = SERVICES["redis"]
    assert "--appendonly yes" in redis["command"]
    assert "--maxmemory-policy noeviction" in redis["command"]
    assert "redis:/data" in redis["volumes"]
    maxmemory = re.search(r"--maxmemory (\S+)", redis["command"])
    assert maxmemory is not None
    assert (filled(maxmemory[1]), filled(redis["mem_limit"])) == ("1gb", "2g")


def test_every_setting_exists_and_can_be_set_in_a_file_that_compose_reads() -> None:
    settings = {f"CHORALE_{setting.upper()}" for setting in Settings.model_fields}
    for service in OURS.values():
        variables = {name: value for name, value in service["environment"].items() if name in settings}
        assert {name for name in service["environment"] if name.startswith("CHORALE_")} == variables.keys()
        # `environment` overrides chorale.env.  Addresses are left out, because compose makes them from passwords.
        for name, value in variables.items():
            assert name.endswith("_URL") or filled(value, **{name: "given"}) == "given"
    for service in READERS.values():
        assert {"path": "chorale.env", "required": False} in service["env_file"]
    documented = set(re.findall(r"^#\s+(CHORALE_[A-Z_]+)=", EXAMPLE, re.MULTILINE))
    assert documented <= settings - SERVICES["bm25"]["environment"].keys()
    known = {*re.findall(r"\$\{([A-Z_]+)", TEXT), "COMPOSE_PROFILES"}
    assert known == set(re.findall(r"^([A-Z_]+)=", EXAMPLE, re.MULTILINE))


def test_the_image_is_built_from_an_exact_version_that_can_be_pinned() -> None:
    default = re.search(r"^ARG PYTHON_IMAGE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert default is not None
    assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim-\w+", default[1])
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["$PYTHON_IMAGE"] * 2
    for service in OURS.values():
        image = service["build"]["args"]["PYTHON_IMAGE"]
        assert (filled(image), filled(image, PYTHON_IMAGE="a@sha256:b")) == (default[1], "a@sha256:b")
    for name in ENGINES:
        variable = {"postgresql": "POSTGRES"}.get(name, name.upper()) + "_IMAGE"
        assert re.search(r":\d+\.\d+", filled(SERVICES[name]["image"]))
        assert filled(SERVICES[name]["image"], **{variable: "a@sha256:b"}) == "a@sha256:b"


def test_the_image_has_every_folder_of_ours_that_its_programs_import() -> None:
    ignored = set((ROOT / ".dockerignore").read_text(encoding="utf-8").split())
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    needed, pending = set[str](), {"cli", "config", "tasks"}
    while pending:
        needed.add(folder := pending.pop())
        code = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / folder).rglob("*.py"))
        pending |= set(re.findall(r"^\s*(?:from|import) (\w+)", code, re.MULTILINE)) & folders - needed
    assert {"records", "evaluation", "search"} <= needed
    assert needed & ignored == set()


@pytest.mark.parametrize("ignored", [".gitignore", ".dockerignore"])
def test_an_operator_s_own_files_go_into_no_image_and_no_commit(ignored: str) -> None:
    own = {".env", "chorale.env", "mine/", "*.secret"}
    assert own <= set((ROOT / ignored).read_text("utf-8").split())
    assert "CHORALE_FILES=./mine and" in EXAMPLE
