"""What a process dumps to JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest


def recorded_dumps(monkeypatch: pytest.MonkeyPatch, text: str) -> list[str]:
    """Each JSON, from now on, that holds this text."""
    dumps: list[str] = []
    encode = json.JSONEncoder.encode

    def recorded(self: json.JSONEncoder, value: Any) -> str:
        written = encode(self, value)
        dumps.extend([written] if text in written else [])
        return written

    monkeypatch.setattr(json.JSONEncoder, "encode", recorded)
    return dumps
