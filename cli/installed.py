"""The `chorale` command of an installed wheel, in which every folder of the service lies inside `chorale_service`."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Run the command line with `chorale_service` first on the path.

    The processes that the command starts inherit the path, and the working directory is on none of their paths.
    """
    folder = str(Path(__file__).resolve().parents[1])
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    os.environ["PYTHONSAFEPATH"] = "1"

    from cli.app import run

    run()
