"""The tests read docker-compose.yml and Dockerfile, without a container engine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from celery.bin.celery import celery as celery_command
from chorale_client.words import QUEUE_BRANCH, QUEUE_INDEX

from assembly.pipeline import load_pipeline
from cli.local.flower import OPTIONS
from config.settings import Settings
from deploy.redis_acl import ROLES

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ENGINES = {
    "redis": "redis",
    "elasticsearch": "elasticsearch",
    "weaviate": "semitechnologies/weaviate",
    "postgresql": "postgres",
}
"""The image of each engine, without its version."""
EXACT = {
    "redis": r"\d+\.\d+\.\d+-alpine",
    "elasticsearch": r"\d+\.\d+\.\d+",
    "weaviate": r"\d+\.\d+\.\d+",
    "postgresql": r"\d+\.\d+-alpine",
}
"""The versions of images are whole; PostgreSQL's have two numbers."""
OURS = {name: service for name, service in SERVICES.items() if name not in ENGINES}
ONCE = {"redis-acl", "chorale"}
"""Services that do one thing and end."""
LASTING = {name: service for name, service in SERVICES.items() if name not in ONCE}
BEATING = sorted(OURS.keys() - ONCE - {"flower", "http"})
PIPELINE = load_pipeline(ROOT / "config" / "clustered.toml")


def words(service: dict[str, Any]) -> list[str]:
    command = service["command"]
    return command.split() if isinstance(command, str) else command


def filled(text: str, **dotenv: str) -> str:
    """Replaces `${NAME}`, `${NAME:-default}` and `${NAME:?complaint}` as compose does."""
    return re.sub(
        r"\$\{([A-Z_]+)(?::-([^}]*)|:\?[^}]*)?\}", lambda found: dotenv.get(found[1]) or found[2] or "", text
    )


@cache
def help_of(command: str) -> str:
    """Returns the help text of one of our commands; fails if there is no such command."""
    found = subprocess.run(
        [sys.executable, "-m", "cli", command, "--help"],
        cwd=ROOT,
        env={"COLUMNS": "200", "NO_COLOR": "1", "PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


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
    "bm25": {*WORKER, TEXTS},
    "vector": {*WORKER, VECTORS},
    "hyde": {*WORKER, TEXTS, VECTORS, MODELS},
    "fusion": {*WORKER, TEXTS, VECTORS},
    "index": {*WORKER, POSTGRES, TEXTS, VECTORS},
    "bulk": {*WORKER, POSTGRES, TEXTS, VECTORS, MODELS},
    "sweeper": {"REDIS_SWEEPER_PASSWORD", "CHORALE_SIGNING_KEY", POSTGRES, WEBHOOKS},
    "flower": {"REDIS_FLOWER_PASSWORD", "FLOWER_BASIC_AUTH"},
    "http": {"REDIS_HTTP_PASSWORD", POSTGRES, WEBHOOKS},
    "chorale": {"REDIS_OPERATOR_PASSWORD", POSTGRES, TEXTS, VECTORS, WEBHOOKS, MODELS},
}
"""What each service is given: secret variables of .env, and the file with the keys of language models."""


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_gets_the_secrets_that_it_needs_and_no_others(name: str) -> None:
    service = SERVICES[name]
    variables = set(re.findall(r"\$\{([A-Z_]+)", yaml.safe_dump(service)))
    secrets = {one for one in variables if re.search(r"PASSWORD|KEY|SECRET|AUTH", one)}
    files = {one["path"] for one in service.get("env_file", [])}
    assert secrets | files - {"chorale.env"} == SECRETS[name]
    assert not files or name in OURS.keys() - {"redis-acl"}


def test_every_queue_of_the_pipeline_has_a_service() -> None:
    served = {
        word for service in OURS.values() for word in words(service) if re.fullmatch(r"chorale\.\w+", word)
    }
    assert served == set(PIPELINE.queues)
    assert {QUEUE_INDEX, QUEUE_BRANCH.format(branch="hyde")} <= served


def test_the_pipeline_of_the_services_searches_the_engines_that_are_started() -> None:
    for service in OURS.keys() - {"redis-acl"}:
        assert (
            filled(SERVICES[service]["environment"]["CHORALE_PIPELINE_FILE"]) == "/app/config/clustered.toml"
        )
    assert {name: store.options["url"] for name, store in PIPELINE.stores.items()} == {
        "texts": "http://elasticsearch:9200",
        "vectors": "http://weaviate:8080",
    }
    stores = {branch.name: branch.store for branch in PIPELINE.branches}
    assert stores == {"bm25": "texts", "vector": "vectors", "hyde": "vectors"}
    hyde = next(branch for branch in PIPELINE.branches if branch.name == "hyde")
    assert hyde.options["feedback_store"] == "texts"


@pytest.mark.parametrize("name", BEATING)
def test_the_command_of_a_service_is_one_of_ours_and_knows_its_options(name: str) -> None:
    python, dash_m, cli, command, *arguments = words(SERVICES[name])
    assert (python, dash_m, cli) == ("python", "-m", "cli")
    for option in (argument for argument in arguments if argument.startswith("--")):
        assert option in help_of(command)


def test_flower_is_a_command_of_celery_and_asks_for_a_login() -> None:
    flower = SERVICES["flower"]
    assert words(flower)[:4] == ["celery", "-A", "tasks.app", "flower"]
    assert "flower" in celery_command.commands
    assert flower["environment"]["FLOWER_BASIC_AUTH"].startswith("${FLOWER_BASIC_AUTH:?")


def test_flower_is_published_on_loopback_and_shows_requests_unless_they_are_turned_off() -> None:
    flower = SERVICES["flower"]
    assert "--address=0.0.0.0" in words(flower)
    assert flower["ports"] == ["${FLOWER_BIND:-127.0.0.1:5555}:5555"]
    events = {SERVICES[name]["environment"]["CHORALE_TASK_EVENTS"] for name in BEATING}
    assert events == {"${CHORALE_TASK_EVENTS:-true}"}


def test_the_http_api_is_a_command_of_ours_and_is_ready_when_what_it_needs_is_there() -> None:
    http = SERVICES["http"]
    python, dash_m, cli, command, *options = words(http)
    assert (python, dash_m, cli) == ("python", "-m", "cli")
    assert all(option in help_of(command) for option in options if option.startswith("--"))
    assert http["ports"] == ["${HTTP_BIND:-127.0.0.1:8000}:8000"]
    assert "'http://127.0.0.1:8000/readyz'" in http["healthcheck"]["test"][-1]


def test_flower_shows_the_same_as_under_chorale_up() -> None:
    assert tuple(words(SERVICES["flower"])[-len(OPTIONS) :]) == OPTIONS


@pytest.mark.parametrize("name", sorted(LASTING))
def test_every_service_has_an_image_and_a_health_check_and_restarts(name: str) -> None:
    service = SERVICES[name]
    image, _, version = filled(service["image"]).partition(":")
    assert image == ENGINES.get(name, "chorale")
    variable = {"postgresql": "POSTGRES"}.get(name, name.upper()) + "_IMAGE"
    assert name in OURS or filled(service["image"], **{variable: "a@sha256:b"}) == "a@sha256:b"
    assert version == "latest" if name in OURS else re.fullmatch(EXACT[name], version)
    assert service["restart"] == "unless-stopped"
    check = service["healthcheck"]
    assert check["test"][0] in ("CMD", "CMD-SHELL")
    assert {"interval", "timeout", "retries"} <= check.keys()


@pytest.mark.parametrize("name", BEATING)
def test_a_health_check_asks_for_the_worker_of_its_own_service(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"] == [
        "CMD",
        "python",
        "-m",
        "monitoring.healthy",
        "ready",
        name,
    ]
    assert (ROOT / "monitoring" / "healthy.py").exists()
    assert words(SERVICES[name])[-2:] == ["--name", name]


@pytest.mark.parametrize("name", sorted(OURS.keys() - {"redis-acl"}))
def test_every_service_of_ours_waits_for_the_engines_and_shares_the_data(name: str) -> None:
    service = SERVICES[name]
    assert service["depends_on"] == {engine: {"condition": "service_healthy"} for engine in ENGINES}
    assert service["volumes"][0] == "data:/var/lib/chorale"
    assert "CHORALE_HOME=/var/lib/chorale" in DOCKERFILE


@pytest.mark.parametrize("name", sorted(OURS.keys() - {"redis-acl"}))
def test_every_service_of_ours_reads_a_folder_and_a_pipeline_file_that_the_operator_names(name: str) -> None:
    service = SERVICES[name]
    mount = dict(service["volumes"][1])
    assert (filled(mount.pop("source")), mount) == (
        "./config",
        # If the folder is missing, compose ends with an error; otherwise the engine would create one that root owns.
        {"type": "bind", "target": "/etc/chorale", "read_only": True, "bind": {"create_host_path": False}},
    )
    assert filled(service["volumes"][1]["source"], CHORALE_FILES="./mine") == "./mine"
    chosen = filled(
        service["environment"]["CHORALE_PIPELINE_FILE"], CHORALE_PIPELINE_FILE="/etc/chorale/my.toml"
    )
    assert chosen == "/etc/chorale/my.toml"


def test_models_from_the_hub_are_kept_where_every_service_finds_them() -> None:
    variables = dict(re.findall(r"(\w+)=(\S+)", DOCKERFILE.rpartition("FROM ")[2]))
    kept = Path(variables["HF_HOME"])
    assert kept.parent == Path(variables["CHORALE_HOME"])
    # A new volume gets the owner of this folder in the image.
    assert re.search(rf"install -d -o 10001 -g 10001 .*{kept.parent}", DOCKERFILE)


def test_the_groups_of_the_image_are_those_of_the_file_that_compose_reads() -> None:
    default = re.search(r'^ARG GROUPS="(.*)"$', DOCKERFILE, re.MULTILINE)
    assert default is not None
    for service in OURS.values():
        groups = service["build"]["args"]["GROUPS"]
        assert (filled(groups), filled(groups, IMAGE_GROUPS="llm torch")) == (default[1], "llm torch")


def test_every_setting_under_environment_can_be_set_in_the_file_that_compose_reads() -> None:
    # `environment` overrides chorale.env.  Addresses are left out, because compose makes them from passwords.
    for service in OURS.values():
        for name, value in service["environment"].items():
            if name.startswith("CHORALE_") and not name.endswith("_URL"):
                assert filled(value, **{name: "given"}) == "given"


@pytest.mark.parametrize("name", sorted(OURS))
def test_no_service_of_ours_is_root_or_can_write_its_image(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["tmpfs"] == ["/tmp"]
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE)


@pytest.mark.parametrize("name", ENGINES)
def test_no_engine_gains_privileges(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    # Elasticsearch writes its own configuration, and its image is not root; Weaviate's volume belongs to root.
    assert name in ("elasticsearch", "weaviate") or (service["read_only"] and service["user"] != "root")


def test_the_image_is_built_from_an_exact_version_that_can_be_pinned() -> None:
    default = re.search(r"^ARG PYTHON_IMAGE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert default is not None
    assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim-\w+", default[1])
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["$PYTHON_IMAGE"] * 2
    for service in OURS.values():
        image = service["build"]["args"]["PYTHON_IMAGE"]
        assert (filled(image), filled(image, PYTHON_IMAGE="a@sha256:b")) == (default[1], "a@sha256:b")


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_service_has_a_limit_of_memory(name: str) -> None:
    assert re.fullmatch(r"\d+g|\$\{[A-Z_]+:-\d+g\}", SERVICES[name]["mem_limit"])


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_variable_of_ours_is_a_setting(name: str) -> None:
    ours = {variable for variable in SERVICES[name]["environment"] if variable.startswith("CHORALE_")}
    assert ours <= {f"CHORALE_{setting.upper()}" for setting in Settings.model_fields}
    assert name == "redis-acl" or {"CHORALE_REDIS_URL", "CHORALE_AUDIT_URL"} <= ours


@pytest.mark.parametrize("name", sorted(OURS.keys() - {"redis-acl"}))
def test_every_service_logs_in_to_redis_as_its_own_role(name: str) -> None:
    role = {"sweeper": "sweeper", "flower": "flower", "http": "http", "chorale": "operator"}.get(
        name, "worker"
    )
    variable = ROLES[role].variable
    url = SERVICES[name]["environment"]["CHORALE_REDIS_URL"]
    assert re.fullmatch(rf"redis://{role}:\$\{{{variable}(:\?[^}}]*)?\}}@redis:6379/0", url)


def test_the_logins_of_redis_are_written_before_it_starts_by_its_own_user() -> None:
    writer = SERVICES["redis-acl"]
    assert words(writer) == ["python", "-m", "deploy.redis_acl", "/acl/users.acl"]
    others = {"CHORALE_ON_END_QUEUES", "CHORALE_REMOTE_CONTROL"}
    assert writer["environment"].keys() == others | {role.variable for role in ROLES.values()}
    assert writer["volumes"] == ["logins:/acl"]
    redis = SERVICES["redis"]
    assert "--aclfile /acl/users.acl" in redis["command"]
    assert "logins:/acl:ro" in redis["volumes"]
    # The file is for its owner alone; a new volume gets the owner of this folder in the image.
    assert writer["user"] == redis["user"] == "999:1000"
    assert re.search(r"install -d -o 999 -g 1000 -m 0700 /acl$", DOCKERFILE, re.MULTILINE)
    # A new password changes redis-acl, and Redis restarts after it, because it reads the file only at start.
    written = {"condition": "service_completed_successfully", "restart": True}
    assert redis["depends_on"] == {"redis-acl": written}


def test_redis_keeps_everything_and_evicts_nothing() -> None:
    command = SERVICES["redis"]["command"]
    assert "--appendonly yes" in command
    assert "--maxmemory-policy noeviction" in command
    assert "redis:/data" in SERVICES["redis"]["volumes"]


def test_redis_has_twice_the_memory_that_its_data_may_take() -> None:
    redis = SERVICES["redis"]
    maxmemory = re.search(r"--maxmemory (\S+)", redis["command"])
    assert maxmemory is not None
    assert (filled(maxmemory[1]), filled(redis["mem_limit"])) == ("1gb", "2g")
    assert filled(redis["mem_limit"], REDIS_MEMORY="8g") == "8g"


def test_weaviate_is_kept_from_pruning_text_searches_wrongly() -> None:
    assert SERVICES["weaviate"]["environment"]["USE_INVERTED_SEARCHABLE"] == "false"


def test_every_engine_requires_a_login() -> None:
    search, vectors = SERVICES["elasticsearch"]["environment"], SERVICES["weaviate"]["environment"]
    assert search["xpack.security.enabled"] == "true"
    assert vectors["AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED"] == "false"
    assert PIPELINE.stores["texts"].options["password_env"] in SERVICES["bm25"]["environment"]
    assert PIPELINE.stores["vectors"].options["api_key_env"] in SERVICES["vector"]["environment"]


def test_every_volume_is_declared() -> None:
    used = {
        volume.partition(":")[0]
        for service in SERVICES.values()
        for volume in service["volumes"]
        if isinstance(volume, str)
    }
    assert used == set(COMPOSE["volumes"])


def test_no_port_is_published_beyond_this_machine() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == 3
    assert all(re.match(r"\$\{[A-Z_]+:-127\.0\.0\.1:\d+\}:\d+$", port) for port in ports)


def test_the_example_environment_names_every_variable_that_compose_reads() -> None:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    asked = set(re.findall(r"\$\{([A-Z_]+)", text))
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert asked == set(re.findall(r"^([A-Z_]+)=", example, re.MULTILINE))


def test_every_other_setting_reaches_every_service_of_ours_through_one_file() -> None:
    asked = {name: service["env_file"] for name, service in OURS.items() if name != "redis-acl"}
    assert all({"path": "chorale.env", "required": False} in files for files in asked.values()), asked
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert "chorale.env" in example
    shown = re.findall(r"^#\s+(CHORALE_[A-Z_]+)=", example, re.MULTILINE)
    assert shown
    assert {name.removeprefix("CHORALE_").lower() for name in shown} <= Settings.model_fields.keys()
    # `environment` overrides the file, so these settings would have no effect there.
    assert not set(shown) & SERVICES["bm25"]["environment"].keys()


def test_no_password_has_a_default() -> None:
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    secrets = dict(re.findall(r"^(\w*(?:PASSWORD|KEY|AUTH|SECRET))=(.*)$", example, re.MULTILINE))
    assert secrets.keys() == set().union(*SECRETS.values()) - {MODELS}
    assert set(secrets.values()) == {""}


def test_every_path_that_the_image_copies_exists() -> None:
    sources = re.findall(r"^COPY ((?!--from).+) \S+$", DOCKERFILE, re.MULTILINE)
    assert sources
    for source in (name for line in sources for name in line.split()):
        assert (ROOT / source).exists(), source


def test_the_image_has_every_module_of_ours_that_its_programs_import() -> None:
    ignored = set((ROOT / ".dockerignore").read_text(encoding="utf-8").split())
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    needed, left = set[str](), ["cli", "config", "tasks"]
    while left:
        needed.add(folder := left.pop())
        left += imported_by(folder) & folders - needed - set(left)
    assert {"audit", "bench", "search"} <= needed
    assert needed & ignored == set()


def imported_by(folder: str) -> set[str]:
    """Returns the top-level name of every module that code in this folder imports."""
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in (ROOT / folder).rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    names += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return {name.partition(".")[0] for name in names}


def test_an_operator_s_own_files_go_into_no_image_and_no_commit() -> None:
    folder = re.search(r"CHORALE_FILES=\./(\w+) and", (ROOT / ".env.example").read_text(encoding="utf-8"))
    assert folder is not None
    for ignored in (".gitignore", ".dockerignore"):
        assert {".env", "chorale.env", f"{folder[1]}/", "*.secret"} <= set(
            (ROOT / ignored).read_text("utf-8").split()
        )


def test_the_image_has_the_clients_of_the_engines_and_no_torch() -> None:
    groups = re.search(r'^ARG GROUPS="(.*)"$', DOCKERFILE, re.MULTILINE)
    assert groups is not None
    assert {"elasticsearch", "weaviate", "postgresql"} <= set(groups[1].split())
    locks = [ROOT / "requirements" / f"{name}.txt" for name in ("base", "model", *groups[1].split())]
    pinned = {line.partition("==")[0] for lock in locks for line in lock.read_text("utf-8").splitlines()}
    assert {"celery", "elasticsearch", "weaviate-client", "psycopg"} <= pinned
    assert not {"torch", "sentence-transformers", "scipy"} & pinned


def test_the_image_is_built_in_stages_and_leaves_the_installers_behind() -> None:
    first, last = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]
    assert "pip install" in first
    assert "pip" not in last
    assert "COPY --from=packages /opt/venv /opt/venv" in last


def test_the_page_makes_a_folder_with_a_pipeline_file_that_the_services_read(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
    commands = re.findall(r"^((?:mkdir mine|sed -i \"s\|).*)$", page, re.MULTILINE)
    assert len(commands) == 3
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "clustered.toml").write_text("")
    (tmp_path / ".env").write_text((ROOT / ".env.example").read_text(encoding="utf-8"))
    subprocess.run(["sh", "-ec", "\n".join(commands)], cwd=tmp_path, check=True)
    dotenv = dict(re.findall(r"^([A-Z_]+)=(.*)$", (tmp_path / ".env").read_text(), re.MULTILINE))
    service = SERVICES["bm25"]
    folder = filled(service["volumes"][1]["source"], **dotenv)
    inside = Path(filled(service["environment"]["CHORALE_PIPELINE_FILE"], **dotenv))
    assert (tmp_path / folder / inside.relative_to(service["volumes"][1]["target"])).exists()


def test_flower_without_a_container_listens_on_this_machine_only() -> None:
    page = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"celery -A tasks\.app flower.*", page)
    assert "--address=127.0.0.1" in line
