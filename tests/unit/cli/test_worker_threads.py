"""A worker's numeric libraries are told their threads before they are loaded."""

from __future__ import annotations

import pytest

from config.blas_threads import VARIABLES
from tests.support.new_process import printed

PROBE = """
import os, sys
import cli.commands.processes
assert "numpy" not in sys.modules, "loaded before anything was said"
from config.blas_threads import limit_threads
limit_threads()
assert "numpy" not in sys.modules
print(*(os.environ[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")))
"""


def test_thread_limits_are_set_before_numpy_is_imported_and_the_environment_overrides_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert printed(PROBE, OMP_NUM_THREADS="3") == ["3 1 1"]
