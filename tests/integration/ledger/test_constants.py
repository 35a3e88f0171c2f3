"""The scripts use every number of the protocol by its name.

The other tests of this folder run under longer times, too (`conftest.py`), and so fail where a script repeats a time.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

import pytest
from chorale_client import scripts as of_callers
from chorale_client.protocol_constants import PROTOCOL

ROOT = Path(__file__).parents[3]
FOLDERS = (Path(str(of_callers._HERE)), ROOT / "ledger" / "scripts")


def code(folder: Path) -> str:
    """The scripts of the folder without their comments."""
    return "\n".join(
        re.sub("--.*", "", file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.lua"))
    )


@pytest.mark.parametrize("name", asdict(PROTOCOL))
def test_the_scripts_use_every_constant_by_its_name(name: str) -> None:
    assert re.search(rf"\b{name.upper()}\b", "\n".join(map(code, FOLDERS)))
