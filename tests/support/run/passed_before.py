"""A pytest plugin: a run skips the tests that passed in an earlier run.

CHORALE_TEST_PASSED names a file.  Each run adds the tests that passed to it, and deselects the tests that it lists already.
FILE.not gets the tests that failed or were skipped, and FILE.whole the test files of which each test has passed: the next run does
not read these.  CI runs the tests without servers first, and then with servers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

_FILE = os.environ.get("CHORALE_TEST_PASSED")

_DESELECTED = pytest.StashKey[set[str]]()
"""The files of which some tests do not run."""


def _lines(file: str | None) -> set[str]:
    return set(Path(file).read_text("utf-8").splitlines()) if file and Path(file).exists() else set()


def _add(file: str, lines: Iterable[str]) -> None:
    with Path(file).open("a", encoding="utf-8") as opened:
        opened.writelines(f"{line}\n" for line in sorted(lines))


def _files(nodeids: Iterable[str]) -> set[str]:
    return {nodeid.partition("::")[0] for nodeid in nodeids}


_PASSED, _WHOLE = _lines(_FILE), _lines(f"{_FILE}.whole")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_DESELECTED] = set()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """None leaves the decision to others."""
    is_whole = bool(_WHOLE) and collection_path.is_relative_to(config.rootpath)
    return True if is_whole and str(collection_path.relative_to(config.rootpath)) in _WHOLE else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    passed = [item for item in items if item.nodeid in _PASSED]
    items[:] = [item for item in items if item.nodeid not in _PASSED]
    if passed:
        config.hook.pytest_deselected(items=passed)


def pytest_deselected(items: list[pytest.Item]) -> None:
    items[0].config.stash[_DESELECTED] |= _files(item.nodeid for item in items)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Only the processes of pytest-xdist collect tests."""
    node.config.stash[_DESELECTED] |= {*getattr(node, "workeroutput", {}).get("deselected", ())}


def pytest_sessionfinish(session: pytest.Session) -> None:
    deselected = session.config.stash[_DESELECTED]
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["deselected"] = sorted(deselected)
    elif _FILE:
        stats = session.config.pluginmanager.getplugin("terminalreporter").stats
        failed = {report.nodeid for name in ("failed", "error") for report in stats.get(name, ())}
        passed = {report.nodeid for report in stats.get("passed", ())} - failed
        not_passed = failed | {report.nodeid for report in stats.get("skipped", ())}
        _add(_FILE, passed)
        _add(f"{_FILE}.not", not_passed)
        _add(f"{_FILE}.whole", _files(passed) - _files(not_passed) - deselected)
