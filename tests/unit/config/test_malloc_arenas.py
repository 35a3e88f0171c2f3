"""How many arenas a process of many threads has."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

_PROGRAM = """
import ctypes, sys, threading
from config.malloc_arenas import limit_arenas

if sys.argv[1] == "limited":
    limit_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
everybody = threading.Barrier(6)

def allocate():
    libc.malloc(1_000)
    everybody.wait()

threads = [threading.Thread(target=allocate) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.fdopen.restype = ctypes.c_void_p
libc.malloc_info(0, ctypes.c_void_p(libc.fdopen(1, b"w")))
libc.fflush(None)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has arenas")
@pytest.mark.parametrize(("how", "arenas"), [("limited", 2), ("unlimited", 7)])
def test_the_threads_of_a_process_that_is_limited_share_two_arenas(how: str, arenas: int) -> None:
    limits = {"MALLOC_ARENA_MAX", "GLIBC_TUNABLES"}
    environment = {name: value for name, value in os.environ.items() if name not in limits}
    printed = subprocess.run(
        [sys.executable, "-c", _PROGRAM, how], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert printed.count("<heap nr=") == arenas
