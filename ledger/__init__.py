"""Requests in flight: which branches are expected and have answered, when to join and to end, and the terminal write.

The ledger knows Redis and the words on the wire, but no Celery and no settings.  `caches` has the bytes that may be lost.
"""

from __future__ import annotations

from pathlib import Path

from chorale_client.scripts import PRELUDE, Scripts
from redis import Redis


def ledger_scripts(client: Redis, *, prelude: str = PRELUDE) -> Scripts:
    """The scripts of this folder; see `chorale_client.scripts.Scripts`."""
    return Scripts(client, Path(__file__).parent / "scripts", prelude=prelude)
