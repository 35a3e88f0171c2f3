"""The arenas of glibc's `malloc`: pools that keep what their threads have freed, up to eight for each core."""

from __future__ import annotations

import ctypes
from contextlib import suppress

ARENAS = 2
_M_ARENA_MAX = -8  # <malloc.h>


def limit_arenas() -> None:
    """Let all threads of this process share a few arenas; call it before the process has many threads.

    tantivy starts threads for each commit, and an index worker would grow by what each arena keeps.
    """
    with suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, ARENAS)
