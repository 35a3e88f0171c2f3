"""A pytest plugin: a test that takes too long costs itself alone, whatever its process is doing.

The limit of a test covers its set-up, its failure report and the teardown of shared fixtures.  When the limit is over, a
thread of the interpreter, which needs no GIL, writes the stacks of all threads and ends the process.  pytest-xdist then
reports that test as crashed, starts another process, and continues with the next test.  (A signal handler that raises would
end all tests of the process if it fires while pytest writes a report.)
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Iterator

import pytest

EXIT_LIMIT_S = 120.0
"""After its last test, a process has this time to exit; then it is ended."""

_STDERR = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("test_limit_s", "seconds that a test may take, with its fixtures", type="string")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "limit_s(seconds): this test may take longer than `test_limit_s`")
    # pytest replaces the file of stderr while a test runs.
    config.stash[_STDERR] = os.dup(2)
    faulthandler.enable(config.stash[_STDERR])


def pytest_unconfigure(config: pytest.Config) -> None:
    faulthandler.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    marker = item.get_closest_marker("limit_s")
    _exit_after(marker.args[0] if marker else float(item.config.getini("test_limit_s")), item.config)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_sessionfinish(session: pytest.Session) -> None:
    _exit_after(EXIT_LIMIT_S, session.config)


def _exit_after(limit_s: float, config: pytest.Config) -> None:
    faulthandler.dump_traceback_later(limit_s, exit=True, file=config.stash[_STDERR])
