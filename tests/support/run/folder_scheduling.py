"""A pytest plugin: pytest-xdist's `--dist loadfile` gives a process whole folders, and continues after a crash.

The files of a folder share one pipeline.  If two processes had files of the folder, each would start that pipeline.

pytest-xdist 3.8 runs the test that crashed again, in each process until none is left, and gives a new process work that it
never begins: a process needs two tests, since it runs one only when it knows the next.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FolderScheduling | None:
    return FolderScheduling(config, log) if config.getoption("dist") == "loadfile" else None


class FolderScheduling(LoadFileScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        return str(super()._split_scope(nodeid)).rpartition("/")[0]

    def remove_node(self, node: WorkerController) -> str | None:
        """Returns the test that crashed, which does not run again."""
        assigned: dict[str, dict[str, bool]] = self.assigned_work[node]
        incomplete = (
            (tests, test)
            for tests in assigned.values()
            for test, is_complete in tests.items()
            if not is_complete
        )
        tests, crashed = next(incomplete, ({}, None))
        if crashed is not None:
            tests[crashed] = True
        super().remove_node(node)
        return crashed

    def _reschedule(self, node: WorkerController) -> None:
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)
