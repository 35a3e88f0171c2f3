"""The Pythons and systems that README.md names: every locked package has a wheel for each of them."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "requirements"
PYTHONS = OLDEST, *BETWEEN, NEWEST = ["3.11", "3.12", "3.13", "3.14"]
SYSTEMS = {
    "Linux on x86-64": "x86_64-manylinux_2_28",
    "Linux on ARM": "aarch64-manylinux_2_28",
    "macOS 14 on Apple silicon": "aarch64-apple-darwin",
}
COMPILED = {("eval", "Linux on ARM"), ("dev", "Linux on ARM")}
"""trec_eval has no wheel there, and pip compiles it."""


@pytest.mark.parametrize("page", ["README.md", "docs/start.md"])
def test_the_pages_and_the_package_name_the_same_pythons(page: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    said = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert said == PYTHONS
    assert project["requires-python"] == f">={PYTHONS[0]}"
    assert f"Python {PYTHONS[0]} to {PYTHONS[-1]}" in (ROOT / page).read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(
    "python", [OLDEST, *(pytest.param(python, marks=pytest.mark.long) for python in BETWEEN), NEWEST]
)
def test_every_locked_package_has_a_wheel(
    python: str, system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MACOSX_DEPLOYMENT_TARGET", "14.0")
    locks = [file for file in sorted(LOCKS.glob("*.txt")) if (file.stem, system) not in COMPILED]
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--dry-run", "--quiet", "--no-deps"]
    target = ["--target", str(tmp_path), "--python-version", python, "--python-platform", SYSTEMS[system]]
    requirements = [word for lock in locks for word in ("-r", str(lock))]
    called = subprocess.run(
        [*uv, *target, "--only-binary", ":all:", *requirements], capture_output=True, text=True
    )
    assert (called.returncode, called.stderr) == (0, "")
