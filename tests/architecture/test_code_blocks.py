"""What README and docs name exists, and what will read a code block parses it: Typer, the pipeline's loader, a shell.

The blocks of Python run in `tests/acceptance/test_code_blocks.py`.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer

from cli.app import app
from config.settings import PREFIX, Settings
from evaluation.judged.golden import read_golden
from tasks.wiring.pipeline import load_pipeline
from tests.support.code_blocks import PAGES, ROOT, CodeBlock, code_blocks
from tests.support.command_line import parse

LANGUAGES = {"python", "sh", "toml", "ini", "text", "yaml"}
TEXTS = {page.relative_to(ROOT): page.read_text(encoding="utf-8") for page in PAGES}
NOT_SETTINGS = {"CHORALE_FILES", "CHORALE_MEMORY"}
"""Variables of docker-compose.yml, and those of tests, which start with CHORALE_TEST_."""


def commands() -> Iterator[tuple[str, list[str]]]:
    """Returns the place and the words after `chorale` of each line in a shell block that calls `chorale`."""
    for block in code_blocks("sh"):
        for line in block.code.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            for place, word in enumerate(words):
                # In `docker compose run … chorale search`, `chorale` is the service whose command is `chorale`.
                if word.endswith("chorale") and (place == 0 or words[0] == "docker"):
                    yield str(block), [*takewhile(lambda word: word != ">", words[place + 1 :])]


COMMANDS = list(commands())


def without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


MENTIONED = sorted(
    {
        mention
        for text in TEXTS.values()
        for mention in re.findall(r"`chorale ([a-z][^`]*)`", without_blocks(text))
    }
)


def test_every_block_says_its_language_and_none_is_indented_where_no_test_would_see_it() -> None:
    assert [str(block) for block in code_blocks() if block.language not in LANGUAGES] == []
    indented = {
        page: re.findall(r"(?:^|\n)\n {4,}\S.*", without_blocks(text)) for page, text in TEXTS.items()
    }
    assert indented == {page: [] for page in TEXTS}


def test_the_shell_parses_every_block() -> None:
    for block in code_blocks("sh"):
        done = subprocess.run(["bash", "-n"], input=block.code, text=True, capture_output=True)
        assert done.stderr == "", str(block)


@pytest.mark.parametrize(
    ("where", "words"), COMMANDS, ids=[f"{where} {' '.join(words)}" for where, words in COMMANDS]
)
def test_the_command_line_accepts_the_command(where: str, words: list[str]) -> None:
    parse(words)


def test_a_command_that_is_mentioned_exists_with_its_options() -> None:
    for mention in MENTIONED:
        command: Any = typer.main.get_command(app)
        context = typer.Context(command, info_name="chorale")
        words = mention.split()
        while isinstance(command, typer.core.TyperGroup) and words:
            _, command, words = command.resolve_command(context, words)
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, mention


PIPELINES = [block for block in code_blocks("toml") if not block.page.startswith("examples/")]
"""The pipelines of the pages.  The stores and kinds of examples/ come from a package, so they are left out."""


@pytest.mark.parametrize("block", PIPELINES, ids=str)
def test_the_pipeline_s_loader_accepts_a_toml_block(block: CodeBlock, tmp_path: Path) -> None:
    whole = (ROOT / "config" / "pipeline.toml").read_text(encoding="utf-8")
    for table in re.findall(r"^\[([\w.]+)\]$", block.code, re.MULTILINE):
        # A table of the page replaces the shipped table of the same name.
        whole = re.sub(rf"^\[{re.escape(table)}\]\n(?:(?!\[).*\n)*", "", whole, flags=re.MULTILINE)
    file = tmp_path / "pipeline.toml"
    file.write_text(f"{whole}\n{block.code}", encoding="utf-8")
    load_pipeline(file)


@pytest.mark.parametrize("block", code_blocks("yaml"), ids=str)
def test_a_yaml_block_is_a_golden_file(block: CodeBlock, tmp_path: Path) -> None:
    (tmp_path / "golden.yaml").write_text(block.code, encoding="utf-8")
    assert read_golden(tmp_path / "golden.yaml")


def named(pattern: str) -> set[Any]:
    """Returns what the pages name in this way."""
    return {name for text in TEXTS.values() for name in re.findall(pattern, text)}


def test_a_module_that_is_run_exists() -> None:
    modules = named(r"python -m ([\w.]+)") - sys.stdlib_module_names
    assert [name for name in modules if find_spec(name) is None] == []


def test_a_file_that_is_named_exists() -> None:
    files = named(r"`([\w./-]+/[\w.-]+\.(?:py|lua|toml|yaml|yml|svg))`")
    assert [
        name for name in files if not (ROOT / name).exists() and not (ROOT / "client" / name).exists()
    ] == []


def test_a_class_that_is_named_with_its_module_exists() -> None:
    classes = named(r"`([a-z_]+(?:\.[a-z_]+)+)\.([A-Z]\w+)`")
    assert [(module, name) for module, name in classes if not hasattr(import_module(module), name)] == []


def test_a_variable_that_is_named_is_a_setting() -> None:
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | NOT_SETTINGS
    variables = named(rf"\b{PREFIX}[A-Z_]*[A-Z]\b") - known
    assert {name for name in variables if not name.startswith("CHORALE_TEST_")} == set()
