"""Processor time of processes: what requests cost, whoever else works on the machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import psutil

CALLER = "caller"


def cpu_ms(processes: Mapping[str, int], work: Callable[[], None]) -> dict[str, float]:
    """Milliseconds that each process (its number by name) and the caller's own spent while `work` ran."""
    watched = {name: psutil.Process(pid) for name, pid in {**processes, CALLER: os.getpid()}.items()}
    before = {name: _spent_s(process) for name, process in watched.items()}
    work()
    return {name: 1_000 * (_spent_s(process) - before[name]) for name, process in watched.items()}


def _spent_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
