"""Breaks one function of the product in a copy of the tree, and runs the tests that must notice."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple
from xml.etree import ElementTree

from tests.support.pipelines.fork_server import ForkServer

ROOT = Path(__file__).parents[2]
LIMIT_S = 180
JOBS = 2
IMPORTED = (
    "alembic.command",
    "celery.apps.worker",
    "httpx",
    "kombu.transport.redis",
    "numpy",
    "pydantic",
    "pytest",
    "sqlalchemy.orm",
    "structlog",
    "tantivy",
)
"""What the tests import besides this project, whose code differs from mutant to mutant."""
_RUN = """
import sys
sys.dont_write_bytecode = True
import pytest
sys.exit(pytest.main({arguments}))
"""


@dataclass(frozen=True, slots=True)
class Mutant:
    promise: str
    """The word in bold of the promise in docs/evidence/guarantees.md."""
    fault: str
    """What the product does wrong with this mutant."""
    file: str
    function: str
    """`function` or `Class.method` of a Python file, a local function of a Lua script, or "" for the whole script."""
    body: str
    """The new body; the parameters stay."""
    tests: tuple[str, ...]
    """Each of these tests fails with this mutant.  At least one case of a parametrised test does."""


class Outcome(NamedTuple):
    is_noticed: bool
    why: str


class NoSuchFunction(ValueError):
    """The file does not have the function of a mutant, or has it twice."""


def broken(mutant: Mutant, root: Path = ROOT) -> str:
    """The text of the file with the new body.  Raises NoSuchFunction."""
    file = root / mutant.file
    if not file.is_file():
        raise NoSuchFunction(f"there is no file {mutant.file}")
    replace = _with_lua_body if file.suffix == ".lua" else _with_python_body
    return replace(file.read_text(encoding="utf-8"), mutant)


def _with_python_body(text: str, mutant: Mutant) -> str:
    module = ast.parse(text)
    *classes, name = mutant.function.split(".")
    scope: list[ast.stmt] = module.body
    for class_name in classes:
        scope = [
            statement
            for node in scope
            if isinstance(node, ast.ClassDef) and node.name == class_name
            for statement in node.body
        ]
    functions = [node for node in scope if isinstance(node, ast.FunctionDef) and node.name == name]
    _check_count(len(functions), mutant)
    functions[0].body = ast.parse(mutant.body).body
    return ast.unparse(module)


def _with_lua_body(text: str, mutant: Mutant) -> str:
    if not mutant.function:
        return mutant.body
    pattern = rf"^(local function {re.escape(mutant.function)}\([^)]*\)\n).*?^end$"
    matches = list(re.finditer(pattern, text, flags=re.MULTILINE | re.DOTALL))
    _check_count(len(matches), mutant)
    return f"{text[: matches[0].end(1)]}{mutant.body}\nend{text[matches[0].end() :]}"


def _check_count(count: int, mutant: Mutant) -> None:
    if count != 1:
        raise NoSuchFunction(f"{mutant.file} has {count} functions {mutant.function}")


@contextmanager
def running(mutants: tuple[Mutant, ...]) -> Iterator[dict[Mutant, Future[Outcome]]]:
    """What comes of each mutant.  A few run at once, each in a copy of the tree of its own."""
    with tempfile.TemporaryDirectory(prefix="chorale-mutants-") as folder:
        trees: SimpleQueue[tuple[Path, ForkServer]] = SimpleQueue()
        for number in range(min(JOBS, len(mutants))):
            tree = Path(folder) / str(number)
            # The bytecode of unchanged files is still valid in the copy.
            shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".venv", ".git", ".*_cache"))
            trees.put((tree, ForkServer(tree, IMPORTED)))

        # The main thread parses, since `ast` in several threads raises SystemError in Python 3.11.
        changed = {mutant: _broken_or_why(mutant) for mutant in mutants}

        def run(mutant: Mutant) -> Outcome:
            text = changed[mutant]
            if isinstance(text, NoSuchFunction):
                return Outcome(False, str(text))
            tree, server = trees.get()
            try:
                return _run_in(tree, server, mutant, text)
            finally:
                trees.put((tree, server))

        with ThreadPoolExecutor(JOBS) as pool:
            try:
                yield {mutant: pool.submit(run, mutant) for mutant in mutants}
            finally:
                pool.shutdown(cancel_futures=True)
                while not trees.empty():
                    trees.get()[1].close()


def _broken_or_why(mutant: Mutant) -> str | NoSuchFunction:
    try:
        return broken(mutant)
    except NoSuchFunction as error:
        return error


def _run_in(tree: Path, server: ForkServer, mutant: Mutant, changed: str) -> Outcome:
    file, report = tree / mutant.file, tree / "report.xml"
    text = file.read_text(encoding="utf-8")
    report.unlink(missing_ok=True)
    file.write_text(changed, encoding="utf-8")
    with (tree / "output.txt").open("w+") as output:
        # Hypothesis takes half a second to import.
        plugins = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
        arguments = ["-q", *plugins, f"--junitxml={report}", *mutant.tests]
        process = server.fork(_RUN.format(arguments=arguments), _environment(tree), [output.fileno()] * 2)
        try:
            process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            return Outcome(False, f"the tests took longer than {LIMIT_S} s")
        finally:
            process.kill()
            file.write_text(text, encoding="utf-8")
        if not report.is_file():
            output.seek(0)
            return Outcome(False, f"pytest did not run: {output.read().strip()[-300:]}")
    cases = ElementTree.fromstring(report.read_bytes())
    results = [_result(test, cases) for test in mutant.tests]
    return Outcome(
        all(one == "failed" for one in results),
        "; ".join(map(" ".join, zip(mutant.tests, results, strict=True))),
    )


def _environment(tree: Path) -> dict[str, str]:
    # The installed client is the editable one of the real tree; the copy's own comes first.
    paths = os.pathsep.join([str(tree / "client"), str(tree)])
    environment = {**os.environ, "PYTHONPATH": paths}
    environment.pop("CHORALE_TEST_EXAMPLES", None)
    return environment


def _result(test: str, report: ElementTree.Element) -> str:
    """What the report says about the cases of one test.  Only a failed assertion counts, and no error of a fixture."""
    name = test.rpartition("::")[2]
    cases = [case for case in report.iter("testcase") if case.get("name", "").partition("[")[0] == name]
    if not cases:
        return "does not exist"
    if any(case.find("failure") is not None for case in cases):
        return "failed"
    if any(case.find("error") is not None for case in cases):
        return "has an error in its set-up"
    if all(case.find("skipped") is not None for case in cases):
        return "was skipped"
    return "passed although its promise is broken"
