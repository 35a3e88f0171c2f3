"""Lua stands in `*.lua` files, and every Redis key is written out once, in `chorale_client.keys`."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from chorale_client import keys

ROOT = Path(__file__).parents[2]
NO_PRODUCT = {"tests", "docs", "examples"}
KEYS = {value for name, value in vars(keys).items() if name.isupper()}


def product_files(suffix: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", f"*{suffix}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    files = [ROOT / name for name in listed.stdout.split()]
    return [file for file in files if file.relative_to(ROOT).parts[0] not in NO_PRODUCT and file.exists()]


def texts(file: Path) -> Iterator[str]:
    """Returns the string literals of a Python file, without its docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def code(script: Path) -> str:
    """Returns a script without its comments."""
    return re.sub(r"--.*", "", script.read_text(encoding="utf-8"))


def test_no_python_file_holds_lua() -> None:
    assert [str(file) for file in product_files(".py") if "redis.call" in file.read_text("utf-8")] == []


@pytest.mark.parametrize("script", product_files(".lua"), ids=lambda script: script.stem)
def test_every_script_names_its_keys_and_arguments(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    header = "\n".join(line for line in text.splitlines() if line.startswith("--"))
    assert text.startswith("--")
    for name in ("KEYS", "ARGV"):
        assert name not in code(script) or name in header


def test_no_key_is_written_out_twice() -> None:
    written = [
        f"{file.relative_to(ROOT)}: {text!r}"
        for file in product_files(".py")
        if file.name != "keys.py"
        for text in texts(file)
        if text in KEYS or any(text.startswith(key) for key in KEYS - {keys.PREFIX})
    ]
    written += [str(script) for script in product_files(".lua") if keys.PREFIX in code(script)]
    assert written == []
