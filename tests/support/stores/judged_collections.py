"""The judged collections of CHORALE_TEST_DATA: a folder with `<name>.zip` or `<name>/`, each in the BEIR layout."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.servers.services import missing

VARIABLE = "CHORALE_TEST_DATA"


def judged_collection(name: str, into: Path) -> Path:
    """The collection's folder, unpacked below `into` where it is a zip.  Nowhere else is one to be had: without the
    variable the test is skipped, also in CI; where it names a folder without the collection CI fails."""
    if not (place := os.environ.get(VARIABLE)):
        pytest.skip(f"without {VARIABLE}: it names the folder of the judged collections")
    folder, packed = Path(place) / name, Path(place) / f"{name}.zip"
    if folder.is_dir():
        return folder
    if not packed.is_file():
        missing(f"{VARIABLE}={place} has neither {name}/ nor {name}.zip")
    shutil.unpack_archive(packed, into / name)
    return into / name
