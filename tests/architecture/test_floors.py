"""Imports go downwards only, folders on one floor are strangers, and nothing goes in circles."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]


def test_every_import_contract_is_kept() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    found = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


def test_every_folder_with_code_has_a_floor() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(contract for contract in settings["contracts"] if contract["type"] == "layers")["layers"]
    floors = {folder for layer in layers for folder in layer.split(" | ")}
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "examples"}
    assert floors == set(settings["root_packages"]) == folders | {"chorale_client"}


def test_no_module_imports_itself_in_a_circle() -> None:
    packages = sorted({path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"})
    graph = grimp.build_graph("chorale_client", *packages, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise AssertionError(f"a circle of imports: {circle}") from None
