"""docker-compose.yml, read: no container engine is needed to see that it starts what there is."""

from __future__ import annotations

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

from config.pipeline import load_pipeline
from config.settings import Settings

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if name != "redis"}
STARTED = {name: service for name, service in SERVICES.items() if "profiles" not in service}


def words(service: dict[str, Any]) -> list[str]:
    command = service["command"]
    return command.split() if isinstance(command, str) else command


@cache
def help_of(command: str) -> str:
    """The help text of one command of ours; fails where there is none."""
    found = subprocess.run(
        [sys.executable, "-m", "cli", command, "--help"],
        cwd=ROOT,
        env={"COLUMNS": "200", "NO_COLOR": "1", "PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_every_queue_of_the_pipeline_has_a_service() -> None:
    served = {
        word for service in OURS.values() for word in words(service) if re.fullmatch(r"chorale\.\w+", word)
    }
    assert served == set(load_pipeline().queues)
    assert {QUEUE_INDEX, QUEUE_BRANCH.format(branch="hyde")} <= served


@pytest.mark.parametrize("name", sorted(name for name in STARTED if name not in ("redis", "flower")))
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
    assert flower["environment"]["CHORALE_TASK_EVENTS"] == "true"


@pytest.mark.parametrize("name", sorted(STARTED))
def test_every_service_has_an_image_a_health_check_and_comes_back(name: str) -> None:
    service = SERVICES[name]
    assert service["image"] == ("redis:7-alpine" if name == "redis" else "chorale:latest")
    assert service["restart"] == "unless-stopped"
    check = service["healthcheck"]
    assert check["test"][0] == "CMD"
    assert {"interval", "timeout", "retries"} <= check.keys()


@pytest.mark.parametrize("name", sorted(name for name in STARTED if name not in ("redis", "flower")))
def test_a_health_check_asks_for_the_worker_of_its_own_service(name: str) -> None:
    test = SERVICES[name]["healthcheck"]["test"]
    assert test == ["CMD", "python", "-m", "cli.healthy", name]
    assert (ROOT / "cli" / "healthy.py").exists()
    assert words(SERVICES[name])[-2:] == ["--name", name]


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_service_of_ours_waits_for_redis_and_shares_the_data(name: str) -> None:
    service = SERVICES[name]
    assert service["depends_on"] == {"redis": {"condition": "service_healthy"}}
    assert service["volumes"] == ["data:/var/lib/chorale"]
    home = re.search(r"CHORALE_HOME=(\S+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert home is not None
    assert home[1] == "/var/lib/chorale"


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_variable_of_ours_is_a_setting(name: str) -> None:
    ours = {variable for variable in SERVICES[name]["environment"] if variable.startswith("CHORALE_")}
    assert ours <= {f"CHORALE_{setting.upper()}" for setting in Settings.model_fields}
    assert "CHORALE_REDIS_URL" in ours


def test_redis_keeps_everything_and_evicts_nothing() -> None:
    command = SERVICES["redis"]["command"]
    assert "--appendonly yes" in command
    assert "--maxmemory-policy noeviction" in command
    assert SERVICES["redis"]["volumes"] == ["redis:/data"]


def test_every_volume_is_declared() -> None:
    used = {volume.partition(":")[0] for service in SERVICES.values() for volume in service["volumes"]}
    assert used == set(COMPOSE["volumes"])


def test_nothing_is_offered_beyond_this_machine() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == 2
    assert all(re.match(r"\$\{[A-Z_]+:-127\.0\.0\.1:\d+\}:\d+$", port) for port in ports)


def test_the_example_environment_names_every_variable_that_is_asked_for() -> None:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    asked = set(re.findall(r"\$\{([A-Z_]+)", text))
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert asked == set(re.findall(r"^([A-Z_]+)=", example, re.MULTILINE))


def test_what_the_image_copies_is_there() -> None:
    sources = re.findall(r"^COPY (.+) \S+$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    for source in (name for line in sources for name in line.split()):
        assert (ROOT / source).exists(), source
