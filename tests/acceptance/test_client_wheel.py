"""The client's wheel, installed alone in an environment as a web application does, asks a running pipeline."""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.pipelines.pipeline import CORPUS, ROOT, RunningPipeline
from tests.support.wheels import declared, environment, needed, run

pytestmark = pytest.mark.slow  # builds a wheel and two environments

QUESTION = "Who pays for repairs?"


def locked() -> set[str]:
    """The packages of the service's lock."""
    lock = (ROOT / "requirements" / "base.txt").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z0-9-]+)(?:\[[^]]*\])?==", lock, re.MULTILINE))


@pytest.fixture(scope="module")
def python(client_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with the wheel and its requirements."""
    packages = needed(declared(client_wheel), set())
    assert packages <= locked()
    python = environment(tmp_path_factory.mktemp("application") / "venv", [client_wheel], packages)
    # Nothing that the wheel declares is missing.
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "--no-input")
    assert "No broken requirements" in run(*pip, "check", cwd=python.parent)
    return python


def test_the_wheel_holds_one_top_level_name_and_every_module_script_and_the_mark_of_its_types(
    client_wheel: Path,
) -> None:
    names = {name for name in zipfile.ZipFile(client_wheel).namelist() if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in names} == {"chorale_client"}
    files = (ROOT / "client" / "chorale_client").rglob("*")
    sources = {
        str(file.relative_to(ROOT / "client"))
        for file in files
        if file.suffix in (".py", ".lua") or file.name == "py.typed"
    }
    assert sources <= names
    assert "chorale_client/py.typed" in sources


def ask(python: Path, code: str, pipeline: RunningPipeline) -> dict[str, Any]:
    """Runs the program in an empty folder; returns the JSON that it printed."""
    printed = run(
        python,
        "-I",
        "-c",
        code,
        cwd=python.parent,
        REDIS_URL=pipeline.server.url,
        TCP_URL=pipeline.server.tcp_url,
    )
    answer: dict[str, Any] = json.loads(printed)
    return answer


def test_the_service_cannot_be_imported_beside_the_client(python: Path, pipeline: RunningPipeline) -> None:
    code = """
import importlib.util, json
names = ["chorale_client", "tasks", "config", "models", "fusion", "ledger", "search", "numpy", "sqlalchemy"]
print(json.dumps({name: importlib.util.find_spec(name) is not None for name in names}))
"""
    modules = ask(python, code, pipeline)
    assert [name for name, is_there in modules.items() if is_there] == ["chorale_client"]


def test_the_client_asks_and_reads_the_answer(python: Path, pipeline: RunningPipeline) -> None:
    code = f"""
import os
from chorale_client import Chorale
answer = Chorale(os.environ["REDIS_URL"]).retrieve({QUESTION!r}, timeout_s=30, tags={{"from": "wheel"}})
print(answer.model_dump_json())
"""
    answer = ask(python, code, pipeline)
    assert answer["status"] == "complete"
    hit = answer["questions"][0]["hits"][0]
    assert (hit["document_id"], hit["title"]) == ("repairs", CORPUS["repairs"][0])
    assert "landlord" in hit["snippet"]["text"]
