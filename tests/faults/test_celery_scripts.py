"""Every case of docs/evidence/celery happens in the installed Celery; a case that no longer does can go."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.servers.redis_server import RedisServer, free_port, redis_executable

SCRIPT = Path(__file__).parents[2] / "docs" / "evidence" / "celery" / "cases.py"
AT_ONCE = 6
"""Cases that run at the same time; they wait most of the time."""

FOR_EVER = r"PENDING after \d+ s, and for ever"
SEEN = {
    "unreadable_message": [r"the worker ended with 1"] * 6,
    "failing_inner_chord": [FOR_EVER] * 2,
    "killed_before_its_callback": [FOR_EVER],
    "redis_restarted_empty": [FOR_EVER + "; a task sent later gave 1"],
    "expired_while_it_runs": [FOR_EVER],
    "deduplicated_part": [FOR_EVER],
    "killed_after_its_result": [FOR_EVER],
    "unknown_header_task": [FOR_EVER],
    "ignored_header": [FOR_EVER],
    "size_evicted": [FOR_EVER] * 2,
    "message_without_id": [r"the connection was called lost [1-9]\d* times"],
    "system_exit_in_solo_pool": [r"the task is PENDING, the worker ended with 1: \[.*TypeError"],
    "ready_and_not_run": [r"it ran after (0\.[1-9]|[1-9])"],
}
"""The lines that each case prints as seen; the slowest cases come first."""


@pytest.fixture(scope="module")
def printed() -> Iterator[dict[str, Future[str]]]:
    with RedisServer(port=free_port()) as server, ThreadPoolExecutor(AT_ONCE) as executor:
        yield {
            name: executor.submit(run, name, server.tcp_url.removesuffix("0") + str(database))
            for database, name in enumerate(SEEN)
        }


def run(name: str, redis_url: str) -> str:
    path = os.pathsep.join([str(Path(redis_executable()).parent), os.environ["PATH"]])
    environment = {**os.environ, "REDIS_URL": redis_url, "OWN_PORT": str(free_port()), "PATH": path}
    return subprocess.run(
        [sys.executable, str(SCRIPT), name],
        env=environment,
        timeout=170,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def test_every_case_has_an_expected_output() -> None:
    called = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True)
    assert called.stderr == f"'' is no case; there are: {', '.join(sorted(SEEN))}\n"


@pytest.mark.long
@pytest.mark.limit_s(240)
@pytest.mark.parametrize("name", SEEN)
def test_a_case_prints_its_expected_output(printed: dict[str, Future[str]], name: str) -> None:
    saw = re.findall(r"^ *saw: +(.*)$", printed[name].result(180), re.MULTILINE)

    assert len(saw) == len(SEEN[name]), saw
    for line, expected in zip(saw, SEEN[name], strict=True):
        assert re.match(expected, line), line
