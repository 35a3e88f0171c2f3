"""Runs the scripts of this folder (`scripts/*.lua`)."""

from __future__ import annotations

from pathlib import Path

from chorale_client.scripts import PRELUDE, Scripts
from redis import Redis

_FOLDER = Path(__file__).parent / "scripts"


def ledger_scripts(client: Redis, *, prelude: str = PRELUDE) -> Scripts:
    """See `chorale_client.scripts.Scripts`."""
    return Scripts(client, _FOLDER, prelude=prelude)
