"""Wheels of this tree, and what they need, in environments that cannot import this checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from importlib.metadata import PathDistribution, distribution, requires
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.servers.services import missing

LIMIT_S = 120.0
_NOT_SOURCES = shutil.ignore_patterns(
    ".*", "__pycache__", "*.egg-info", "build", "dist", "tests", "docs", "requirements"
)


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Returns the output of a command that cannot import this checkout; the command must succeed."""
    done = subprocess.run(
        command, cwd=cwd, env=outside(**environment), capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def outside(**environment: str) -> dict[str, str]:
    """An environment without this checkout; pip needs the variables with the package index or a certificate."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        **environment,
    }


def build(sources: Path, folder: Path) -> Path:
    """Returns the wheel of a project, built in `folder` from a copy, so that no build folder is left beside the sources."""
    copied = shutil.copytree(sources, folder / "sources", ignore=_NOT_SOURCES)
    before = set(folder.glob("*.whl"))
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, copied, cwd=folder)
    shutil.rmtree(copied)
    (wheel,) = set(folder.glob("*.whl")) - before
    return wheel


def declared(wheel: Path) -> list[str]:
    """The requirements of a wheel without an extra."""
    (metadata,) = (path for path in zipfile.Path(wheel).iterdir() if path.name.endswith(".dist-info"))
    return [line for line in PathDistribution(metadata).requires or () if applies(line)]


def needed(lines: Iterable[str], packages: set[str]) -> set[str]:
    """Returns `packages` with those of these requirements, and the packages that those need on this machine."""
    for requirement in map(Requirement, lines):
        package = canonicalize_name(requirement.name)
        if package in packages and not requirement.extras:
            continue
        packages.add(package)
        needed([line for line in requires(package) or () if applies(line, requirement.extras)], packages)
    return packages


def environment(folder: Path, wheels: Iterable[Path], packages: Iterable[str]) -> Path:
    """The interpreter of a new environment with these wheels; the packages of others are links to those of this environment."""
    folder.mkdir(exist_ok=True)
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    (site,) = folder.glob("lib/python3*/site-packages")
    for package in packages:
        for name in {file.parts[0] for file in distribution(package).files or ()} - {"..", "__pycache__"}:
            (site / name).symlink_to(Path(str(distribution(package).locate_file(name))))
    before = set(site.iterdir())
    python = folder / "bin" / "python"
    uv = (Path(sys.executable).with_name("uv"), "pip", "install", "--no-deps", "--offline", "--quiet")
    run(*uv, "--python", python, *wheels, cwd=folder)
    names = {name.partition("/")[0] for wheel in wheels for name in zipfile.ZipFile(wheel).namelist()}
    assert {path.name for path in set(site.iterdir()) - before} == names
    return python


def interpreter(version: str) -> Path | None:
    """An interpreter of this version on this machine."""
    paths = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return paths[-1] if paths else Path(path) if (path := shutil.which(f"python{version}")) else None


def installed(folder: Path, *requirements: str | Path, python: str) -> Path:
    """The interpreter of a new environment with these packages from the package index, whose absence ends the test.

    `python` is its version; without such an interpreter it is the one of this process.
    """
    uv = Path(sys.executable).with_name("uv")
    # A download takes what the limit of the test leaves it.
    options: Any = {"env": outside(UV_PYTHON_DOWNLOADS="never"), "capture_output": True, "text": True}
    program = subprocess.run((uv, "python", "find", python), **options).stdout.strip() or sys.executable
    run(uv, "venv", "--quiet", "--python", program, folder, cwd=folder.parent)
    install = (uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python", *requirements)
    done = subprocess.run(install, **options)
    if "Failed to fetch" in done.stderr or "error sending request" in done.stderr:
        missing(f"without a package index: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr
    return folder / "bin" / "python"


def applies(line: str, extras: Iterable[str] = ()) -> bool:
    marker = Requirement(line).marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))
