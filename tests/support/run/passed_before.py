"""A pytest plugin: a run skips the tests that passed in an earlier run.

CHORALE_TEST_PASSED names a file.  Each run adds the tests that passed to it, and deselects the tests that it lists already.
FILE.not gets the tests that failed or were skipped.  CI runs the tests without servers first, and then with servers.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_FILE = os.environ.get("CHORALE_TEST_PASSED")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _FILE and Path(_FILE).exists():
        before = set(Path(_FILE).read_text(encoding="utf-8").splitlines())
        passed = [item for item in items if item.nodeid in before]
        items[:] = [item for item in items if item.nodeid not in before]
        config.hook.pytest_deselected(items=passed)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _FILE and not hasattr(session.config, "workerinput"):
        stats = session.config.pluginmanager.getplugin("terminalreporter").stats
        passed = {report.nodeid for report in stats.get("passed", ())}
        failed = {report.nodeid for name in ("failed", "error") for report in stats.get(name, ())}
        with Path(_FILE).open("a", encoding="utf-8") as file:
            file.writelines(f"{nodeid}\n" for nodeid in sorted(passed - failed))
        skipped = {report.nodeid for report in stats.get("skipped", ())}
        with Path(f"{_FILE}.not").open("a", encoding="utf-8") as file:
            file.writelines(f"{nodeid}\n" for nodeid in sorted(failed | skipped))
