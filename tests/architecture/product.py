"""The files of the product: all modules outside tests, docs and examples."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
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


@cache
def nodes(file: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


def texts(file: Path) -> Iterator[str]:
    """Returns the string literals of a Python file, without its docstrings."""
    docs = {id(node.value) for node in nodes(file) if isinstance(node, ast.Expr)}
    for node in nodes(file):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value
