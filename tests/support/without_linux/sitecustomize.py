"""A process that has this folder on its PYTHONPATH has what macOS has: no /proc, no prctl, no choice of cores.

It says that it runs on macOS, so that the product takes its other ways; psutil alone still reads /proc, in place of macOS's own calls.
"""

import asyncio  # noqa: F401 - these look at the platform when they are imported
import ctypes.util  # noqa: F401
import multiprocessing  # noqa: F401
import os
import select
import subprocess  # noqa: F401
import sys
import sysconfig
import urllib.request  # noqa: F401

import psutil  # noqa: F401


def _is_psutil() -> bool:
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("psutil"):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and str(arguments[0]).startswith("/proc") and not _is_psutil():
        raise FileNotFoundError(2, "No such file or directory", arguments[0])
    if event == "ctypes.dlsym" and arguments[1] == "prctl":
        raise AttributeError("prctl")


sysconfig.get_config_vars()  # kept under the name of the platform
for module, name in ((os, "sched_getaffinity"), (os, "sched_setaffinity"), (os, "O_PATH"), (select, "epoll")):
    vars(module).pop(name, None)
vars(sys)["platform"] = "darwin"
sys.addaudithook(_refuse)
