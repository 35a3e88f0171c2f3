"""No function is longer than a screen, except declarations of a command's options or of a schema's tables."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.product import PRODUCT, ROOT

LINES = 50
DECLARATIONS = {"celery_settings", "checks"}
"""Each of these functions is one table: options with their reasons, or checks by name."""


def long_functions(file: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            # A Typer command declares its options in its signature, and its help in its docstring.
            begin = node.body[1 if ast.get_docstring(node) else 0 :][:1] if is_command(node) else []
            lines = node.end_lineno + 1 - (begin[0].lineno if begin else node.lineno)
            if lines > LINES:
                yield node.name, lines


def is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Returns whether an argument of the function is an `Annotated[..., typer.Option(...)]`."""
    arguments = [*node.args.args, *node.args.kwonlyargs]
    return any("typer." in ast.unparse(one.annotation) for one in arguments if one.annotation is not None)


def test_no_function_is_longer_than_a_screen() -> None:
    long = {
        f"{file.relative_to(ROOT)}:{name}": lines
        for file in PRODUCT
        if "revisions" not in file.parts
        for name, lines in long_functions(file)
        if name not in DECLARATIONS
    }
    assert long == {}
