"""The judged collections of CHORALE_TEST_DATA: a folder with `<name>.zip` or `<name>/`, each in the BEIR layout."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.servers.services import missing

VARIABLE = "CHORALE_TEST_DATA"


def judged_collection(name: str, into: Path) -> Path:
    """Returns the collection's folder; unpacks a zip below `into`.

    Skips the test if the variable is not set, also in CI.  If the variable names a folder without the collection,
    CI fails.
    """
    if not (place := os.environ.get(VARIABLE)):
        pytest.skip(f"without {VARIABLE}: it names the folder of the judged collections")
    folder, packed = Path(place) / name, Path(place) / f"{name}.zip"
    if folder.is_dir():
        return folder
    if not packed.is_file():
        missing(f"{VARIABLE}={place} has neither {name}/ nor {name}.zip")
    shutil.unpack_archive(packed, into / name)
    return into / name
