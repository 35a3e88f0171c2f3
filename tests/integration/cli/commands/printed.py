"""What a command that has ended has printed."""

from __future__ import annotations

import json
from typing import Any

from tests.support.command_line import Called


def document(called: Called, code: int = 0) -> dict[str, Any]:
    """The JSON document of a command that ended with this code."""
    assert called.returncode == code, called.stdout + called.stderr
    answer: dict[str, Any] = json.loads(called.stdout)
    return answer


def output(called: Called, code: int = 0) -> str:
    """The output of a command that ended with this code, without the breaks of long lines."""
    assert called.returncode == code, called.stdout + called.stderr
    return " ".join(called.stdout.split())


def complaint(called: Called, code: int = 1) -> str:
    """The sentence of a command that ended with this code and printed nothing else."""
    assert (called.returncode, called.stdout) == (code, ""), called.stderr
    return called.stderr
