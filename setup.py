"""The wheel of the service: its folders inside one package folder, `chorale_service` (CONTRIBUTING.md)."""

from __future__ import annotations

import tomllib
from pathlib import Path

from setuptools import find_namespace_packages, setup

ROOT = Path(__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
GROUPS = PROJECT["dependency-groups"]
CLIENT = f"chorale-client=={PROJECT['project']['version']}"
FOLDERS = sorted({file.parent.name for file in ROOT.glob("*/__init__.py")} - {"tests", "build", "dist"})

found = find_namespace_packages(
    include=[*FOLDERS, *(f"{name}.*" for name in FOLDERS)], exclude=["*.__pycache__", "deploy.*"]
)
setup(
    packages=[f"chorale_service.{name}" for name in [*found, "examples"]],
    package_dir={f"chorale_service.{name}": name for name in [*FOLDERS, "examples"]},
    package_data={
        "": ["*.lua", "*.toml", "*.json", "*.jsonl", "*.mako"],
        "chorale_service.console": ["templates/*.html", "static/*"],
    },
    include_package_data=False,
    install_requires=[*(need for need in GROUPS["base"] if "setuptools" not in need), CLIENT],
    extras_require={
        name: needs for name, needs in GROUPS.items() if name not in ("base", "dev", "supply-chain", "uv")
    },
)
