"""Processor time of processes; it hardly depends on the other load of the machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import psutil

CALLER = "caller"


def cpu_ms(processes: Mapping[str, int], work: Callable[[], None]) -> dict[str, float]:
    """Milliseconds of processor time that each process (pid by name) and this one spent while `work` ran."""
    watched = {name: psutil.Process(pid) for name, pid in {**processes, CALLER: os.getpid()}.items()}
    before = {name: _spent_s(process) for name, process in watched.items()}
    work()
    return {name: 1_000 * (_spent_s(process) - before[name]) for name, process in watched.items()}


def _spent_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
