"""A test that hangs costs itself alone, and whatever a run of tests starts ends with it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import pytest_plugins
from tests.support.run.reaper import is_alive
from tests.support.waiting import until

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]

SLEEPER = """
import os, subprocess, tempfile
# As tests start an installation, without the variables of this one.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith('CHORALE')}
SLEEPER = subprocess.Popen(['sleep', '1000'], env=ENVIRONMENT)
os.write(2, f'sleeper {SLEEPER.pid} beside {tempfile.mkdtemp()}\\n'.encode())
"""

SERVES = """
from tests.support.servers.redis_server import RedisServer

def test():
    with RedisServer() as server:
        server.client().ping()
        os.write(2, f'sleeper {server.pid} is a Redis\\n'.encode())
        SLEEPER.wait()
"""
"""A Redis writes its title over its environment, which names the run."""

HANGS = """
import re, threading
import pytest

@pytest.fixture(scope="module")
def never_ends():
    yield
    threading.Event().wait()

def test_that_passes_first(): ...

def test_that_holds_the_interpreter():
    re.match("(a+)+b", "a" * 99)

def test_that_passes_between(): ...

def test_that_fails_before_a_shared_fixture_hangs(never_ends):
    assert not "this is reported"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of tests with the plugins of these ones."""
    (tmp_path / "pytest.ini").write_text("[pytest]\ntest_limit_s = 3\n")
    (tmp_path / "conftest.py").write_text(f"{pytest_plugins = }")
    return tmp_path


def run(folder: Path, output: Path, **variables: str) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:faulthandler",
        "-p",
        "xdist",
        "-n1",
        "--dist=loadfile",
        "-s",
    ]
    # Importing the plugins of other packages takes half of the time.
    variables["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with output.open("wb") as file:
        return subprocess.Popen(
            command,
            cwd=folder,
            stdout=file,
            stderr=file,
            env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        )


def sleepers(output: Path) -> list[int]:
    return [int(pid) for pid in re.findall(r"sleeper (\d+)", output.read_text())]


def test_tests_that_hang_fail_and_the_others_run(folder: Path, tmp_path: Path) -> None:
    (folder / "test_hangs.py").write_text(SLEEPER + HANGS)
    (folder / "test_others.py").write_text("def test_of_another_file(): ...")
    output = tmp_path / "output"
    assert run(folder, output).wait() == pytest.ExitCode.TESTS_FAILED
    text = output.read_text()
    assert list(dict.fromkeys(re.findall(r"crashed while running '(.*)'", text))) == [
        "test_hangs.py::test_that_holds_the_interpreter",
        "test_hangs.py::test_that_fails_before_a_shared_fixture_hangs",
    ]
    assert "3 passed" in text
    assert "in test_that_holds_the_interpreter" in text, "its stack is written"
    assert "this is reported" in text
    pids = sleepers(output)
    assert len(pids) >= 2, "one for each process that collected the tests"
    assert not [pid for pid in pids if is_alive(pid)]


def test_a_killed_run_leaves_no_process_and_no_folder(folder: Path, tmp_path: Path) -> None:
    (folder / "test_serves.py").write_text(SLEEPER + SERVES)
    output = tmp_path / "output"
    running = run(folder, output)
    until(lambda: "is a Redis" in output.read_text(), 100)
    running.kill()
    running.wait()
    assert len(sleepers(output)) == 2
    until(lambda: not any(map(is_alive, sleepers(output))))
    (temporary,) = re.findall(r"beside (/.*)", output.read_text())
    until(lambda: not Path(temporary).exists())


def test_a_second_run_does_what_failed_was_skipped_or_is_new(folder: Path, tmp_path: Path) -> None:
    tests = "import os, pytest\ndef test_passes(): ...\ndef test_fails(): assert 'SECOND' in os.environ\n"
    tests += "def test_skips():\n    if 'SECOND' not in os.environ: pytest.skip()\n"
    (folder / "test_some.py").write_text(tests)
    (folder / "test_whole.py").write_text("def test_passes(): ...")
    output, passed = tmp_path / "output", {"CHORALE_TEST_PASSED": str(tmp_path / "passed")}
    assert run(folder, output, **passed).wait() == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 2 passed, 1 skipped" in output.read_text()
    (folder / "test_new.py").write_text("def test_new(): ...")
    (folder / "test_whole.py").write_text("assert not 'read again'")
    assert run(folder, output, SECOND="1", **passed).wait() == pytest.ExitCode.OK
    assert "3 passed" in output.read_text()
