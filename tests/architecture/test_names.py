"""Names that have one owner: those of our folders, of the layers, of Redis keys; and how long the fixtures of folders live."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from chorale_client import keys

from tests.architecture.product import PRODUCT, ROOT, SCRIPTS, texts

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
    done = subprocess.run(
        [sys.executable, "-c", code], cwd="/", env=environ, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"


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
    done = subprocess.run(
        [tmp_path / "chorale", "--help"], cwd=tmp_path, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "worker" in done.stdout


def test_every_folder_with_code_has_a_layer() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(contract for contract in settings["contracts"] if contract["type"] == "layers")["layers"]
    floors = {folder for layer in layers for folder in layer.split(" | ")}
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "examples"}
    assert floors == set(settings["root_packages"]) == folders | {"chorale_client"}


def test_the_pipeline_of_a_folder_ends_with_its_folder() -> None:
    """In a folder that is no package, pytest keeps a fixture of a package until the end of its process."""
    keeping = [
        file.parent
        for file in (ROOT / "tests").rglob("conftest.py")
        if 'scope="package"' in file.read_text("utf-8")
    ]
    assert len(keeping) > 5
    no_packages = {
        parent.relative_to(ROOT).as_posix()
        for folder in keeping
        for parent in (folder, *folder.parents)
        if parent.is_relative_to(ROOT / "tests") and not (parent / "__init__.py").exists()
    }
    assert no_packages == set()


KEYS = {value for name, value in vars(keys).items() if name.isupper()}


def code(script: Path) -> str:
    """Returns a script without its comments."""
    return re.sub(r"--.*", "", script.read_text(encoding="utf-8"))


def test_no_python_file_holds_lua() -> None:
    assert [str(file) for file in PRODUCT if "redis.call" in file.read_text("utf-8")] == []


def test_every_script_names_its_keys_and_arguments() -> None:
    assert SCRIPTS
    for script in SCRIPTS:
        lines = script.read_text(encoding="utf-8").splitlines()
        header = "\n".join(line for line in lines if line.startswith("--"))
        assert [name for name in ("KEYS", "ARGV") if name in code(script) and name not in header] == [], (
            script
        )


def test_no_key_is_written_out_twice() -> None:
    written = [
        f"{file.relative_to(ROOT)}: {text!r}"
        for file in PRODUCT
        if file.name != "keys.py" and any(key in file.read_text(encoding="utf-8") for key in KEYS)
        for text in texts(file)
        if text in KEYS or any(text.startswith(key) for key in KEYS - {keys.PREFIX})
    ]
    written += [str(script) for script in SCRIPTS if keys.PREFIX in code(script)]
    assert written == []
