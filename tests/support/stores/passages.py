"""Real passages that every Python has: docstrings of the standard library, read without importing it."""

from __future__ import annotations

import ast
import inspect
import sysconfig
from functools import cache
from pathlib import Path

MODULES = ["argparse", "datetime", "decimal", "difflib", "heapq", "inspect", "ipaddress", "pathlib", "random"]
MODULES += ["shutil", "socket", "statistics", "subprocess", "tempfile", "textwrap", "threading", "typing"]
MODULES += ["zipfile", "_pydecimal", "asyncio/tasks", "email/message", "logging/__init__", "unittest/case"]


@cache
def standard_library_passages(count: int) -> tuple[str, ...]:
    """`count` different passages of at least eight words; always the same ones for one version of Python.

    Most are a docstring's first paragraph, every twentieth is a whole docstring.
    """
    passages: dict[str, None] = {}
    library = Path(sysconfig.get_path("stdlib"))
    for path in (library / f"{module}.py" for module in MODULES):
        if not path.exists():
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                whole = inspect.cleandoc(ast.get_docstring(node) or "")
                text = whole if len(passages) % 20 == 0 else whole.split("\n\n")[0]
                if len(text.split()) >= 8:
                    passages[text] = None
                if len(passages) == count:
                    return tuple(passages)
    raise AssertionError(f"only {len(passages)} docstrings")
