"""The files of the product: all modules outside tests, docs and examples."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
_NOT_PRODUCT = {"tests", "docs", "examples"}

_FOLDERS = [
    folder
    for folder in ROOT.iterdir()
    if folder.is_dir() and folder.name not in _NOT_PRODUCT and not folder.name.startswith((".", "_"))
]

PRODUCT = sorted(file for folder in _FOLDERS for file in folder.rglob("*.py"))
SCRIPTS = sorted(file for folder in _FOLDERS for file in folder.rglob("*.lua"))
