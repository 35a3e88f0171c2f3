"""The settings of the `chorale up` that runs on a home, which commands in other terminals take where they have none."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

from config.private_file import write_private

FILE = "up.json"
_OF_ONE_TERMINAL = ("CHORALE_HOME", "CHORALE_LOG_FORMAT", "CHORALE_LOG_LEVEL")


@contextmanager
def shared(home: Path, environ: Mapping[str, str], names: frozenset[str]) -> Iterator[None]:
    """While the block runs, other processes find these variables of `environ` (`shared_environment`)."""
    file = home / FILE
    given = {name: environ[name] for name in sorted(names.intersection(environ) - {*_OF_ONE_TERMINAL})}
    content = json.dumps({"pid": os.getpid(), "began": psutil.Process().create_time(), "environment": given})
    write_private(file, content)  # it may have passwords
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def shared_environment(home: Path) -> dict[str, str]:
    """The variables of the `chorale up` that runs on this home; none if none runs."""
    try:
        found = json.loads((home / FILE).read_text(encoding="utf-8"))
        if psutil.Process(int(found["pid"])).create_time() != found["began"]:
            return {}
        return {str(name): str(value) for name, value in found["environment"].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, psutil.Error):
        return {}
