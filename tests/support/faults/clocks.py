"""Processes whose clock is not that of their machine."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from tests.support.servers.services import need

AS_THEY_ARE = {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}
"""Timers and the times of files are not faked."""


def libfaketime() -> str:
    package = importlib.util.find_spec(need("libfaketime", "`make dev` installs it where there is one"))
    assert package is not None
    assert package.origin is not None
    return str(Path(package.origin).parent / "vendor/libfaketime/src/libfaketime.so.1")


def shifted(seconds: float) -> dict[str, str]:
    """Returns the environment of a process whose clock is that far from ours; its timers run as usual."""
    return {"LD_PRELOAD": libfaketime(), "FAKETIME": f"{seconds:+.0f}s", **AS_THEY_ARE}
