"""Every folder with code stands in the layers of pyproject.toml, which `make check` holds the imports to."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_folder_with_code_has_a_layer() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(contract for contract in settings["contracts"] if contract["type"] == "layers")["layers"]
    floors = {folder for layer in layers for folder in layer.split(" | ")}
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "examples"}
    assert floors == set(settings["root_packages"]) == folders | {"chorale_client"}
