"""The service's folders have plain names: nothing else may claim them (CONTRIBUTING.md)."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = {
    path.parent.name
    for path in ROOT.glob("*/__init__.py")
    if path.parent.name not in ("tests", "build", "dist")
}


def test_nothing_installed_claims_our_folder_names() -> None:
    assert not (OURS | {"tests"}) & packages_distributions().keys()


def test_python_finds_our_folder_under_each_name_and_its_docstring_says_what_it_is_for() -> None:
    for name in OURS:
        package = importlib.import_module(name)
        assert package.__file__ == str(ROOT / name / "__init__.py")
        assert len(package.__doc__ or "") > 40


def test_importing_the_client_imports_nothing_heavy() -> None:
    heavy = ("torch", "numpy", "sqlalchemy", "structlog", "onnxruntime", "tantivy", *sorted(OURS))
    code = (
        "import sys, pkgutil, importlib, chorale_client\n"
        "for module in pkgutil.walk_packages(chorale_client.__path__, 'chorale_client.'):\n"
        "    if not module.name.startswith('chorale_client.adapters.'):\n"
        "        importlib.import_module(module.name)\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    found = subprocess.run(
        [sys.executable, "-c", code], cwd="/", env=environ, check=True, capture_output=True, text=True
    )
    assert found.stdout.strip() == "[]"


def test_the_extras_of_the_client_are_the_packages_that_the_adapters_are_tested_with() -> None:
    client, service = (
        tomllib.loads((ROOT / name).read_text(encoding="utf-8"))
        for name in ("client/pyproject.toml", "pyproject.toml")
    )
    extras = client["project"]["optional-dependencies"]
    modules = {path.stem.replace("_", "-") for path in (ROOT / "client/chorale_client/adapters").glob("*.py")}
    assert set(extras) < modules
    assert sorted(one for needed in extras.values() for one in needed) == sorted(
        service["dependency-groups"]["adapters"]
    )


def test_the_launcher_ignores_a_working_directory_with_our_folder_names(tmp_path: Path) -> None:
    for name in OURS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise SystemExit('the web application {name}')")
    # `make install` makes such a link.
    (tmp_path / "chorale").symlink_to(ROOT / "cli" / "launcher")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    found = subprocess.run(
        [tmp_path / "chorale", "--help"], cwd=tmp_path, env=environ, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "worker" in found.stdout
