"""Packages with entry points, installed for this process and those that it starts."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from config import extensions

EXAMPLE = Path(__file__).parents[3] / "examples" / "chorale-wiki-source"


def install_example(folder: Path) -> Path:
    """Installs the example package, as pip would; returns the folder of the installation."""
    ignored = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    # The package is installed from a copy, so that no build folder is left beside the sources.
    source = shutil.copytree(EXAMPLE, folder / "source", ignore=ignored)
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-cache",
        "--no-deps",
    ]
    subprocess.run(
        [*command, "--no-build-isolation", "--target", str(folder / "site"), str(source)],
        check=True,
        capture_output=True,
        timeout=100,
    )
    return folder / "site"


def write_package(folder: Path, name: str, module: str, **groups: str) -> None:
    """Writes a package of one module; `stores="a = it:A"` are entry points of the group `chorale.stores`."""
    (folder / f"{name.replace('-', '_')}.py").write_text(module)
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "\n".join(f"[chorale.{group}]\n{points}\n" for group, points in groups.items())
    )


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Makes the packages of the folder importable in this process, until the block ends."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    _forget()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]
        _forget()


def _forget() -> None:
    importlib.invalidate_caches()
    for cached in (extensions.installed, extensions.offered, extensions.load):
        cached.cache_clear()
