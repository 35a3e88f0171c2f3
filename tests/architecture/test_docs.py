"""Each setting, reason, warning, metric, command and error code is named on a page (after datasette's `test_docs.py`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chorale_client.wire_names import Reason, Warned

import monitoring.counting
from api.problems import TITLES
from cli.app import PANELS, load_command
from config.settings import PREFIX, Settings
from monitoring.counting import Series

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "client").glob("*.md")]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def commands(name: str, command: Any) -> Iterator[str]:
    """Yields the command, or those below it if it is a group."""
    below = getattr(command, "commands", None)
    if below is None:
        yield name
    else:
        for word, one in below.items():
            yield from commands(f"{name} {word}", one)


def all_commands() -> Iterator[str]:
    for panel in PANELS.values():
        for name in panel:
            yield from commands(name, load_command(name))


def names_command(text: str, command: str) -> bool:
    """Whether a text has `chorale jobs pause`, also with options between the words or in a list such as `…/pause`."""
    return re.search(rf"chorale {re.escape(command)}\b", text) is not None


NAMES = {
    "settings": [f"{PREFIX}{name.upper()}" for name in Settings.model_fields],
    "reasons": [f"`{reason}`" for reason in Reason],
    "warnings": [f"`{warned}`" for warned in Warned],
    "metrics": [series.name for series in vars(monitoring.counting).values() if isinstance(series, Series)],
    "error codes of the HTTP API": [f"`{code}`" for code in TITLES],
}


@pytest.mark.parametrize("kind", NAMES)
def test_each_name_is_on_a_page(kind: str) -> None:
    assert len(NAMES[kind]) > 10
    assert [name for name in NAMES[kind] if name not in TEXT] == []


def test_each_command_is_on_a_page() -> None:
    names = list(all_commands())
    assert len(names) > 40
    assert [name for name in names if not names_command(TEXT, name)] == []


def test_a_command_that_no_page_names_is_found() -> None:
    assert names_command("`chorale jobs pause ID`", "jobs pause")
    assert not names_command("`chorale jobs show` and pause", "jobs pause")
