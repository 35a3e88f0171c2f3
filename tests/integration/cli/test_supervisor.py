"""The supervisor over real processes: what it restarts, and that it leaves nothing behind."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from cli.local.child_process import Child, ChildProcess
from cli.local.supervisor import NeverServed, Patience, Supervisor
from config.blas_threads import VARIABLES
from models.errors import UnsupportedRedis
from monitoring.heartbeats import Heartbeat
from tests.support.new_process import printed
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]
SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")
QUICK = Patience(restart_delay_s=0.05, stop_s=60, poll_s=0.02, listen_every_s=0.05)


class Lines:
    """Keeps what the children wrote."""

    def __init__(self) -> None:
        self.all: list[tuple[str, str]] = []

    def __call__(self, name: str, line: bytes) -> None:
        self.all.append((name, line.decode()))

    def of(self, name: str) -> list[str]:
        return [line for writer, line in self.all if writer == name]


class Beats:
    """Heartbeats of the ages that a test gives; None stands for an unknown heartbeat."""

    def __init__(self, **ages_s: float | None) -> None:
        self.ages_s = ages_s
        self.count = 0

    def __call__(self, names: Sequence[str]) -> Mapping[str, Heartbeat | None]:
        self.count += 1
        return {
            name: None if age_s is None else Heartbeat(name, age_s, is_ready=True)
            for name, age_s in self.ages_s.items()
        }

    def wait_for(self, count: int) -> None:
        """Returns when the supervisor has read them so many times more."""
        before = self.count
        until(lambda: self.count >= before + count)


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def lines() -> Lines:
    return Lines()


def python(program: str, **options: Any) -> Child:
    return Child("child", (sys.executable, "-c", program), beats=False, **options)


def test_a_child_that_exits_is_restarted_each_time(lines: Lines) -> None:
    with Supervisor([python("print('here'); raise SystemExit(7)")], output=lines, patience=QUICK):
        until(lambda: len(lines.of("chorale")) >= 3)
    assert len(lines.of("child")) >= 3
    assert set(lines.of("chorale")) == {"child ended with exit code 7; it starts again in 0.05 s"}


def test_a_needed_child_that_never_serves_ends_the_others_and_its_last_line_is_the_reason(
    lines: Lines,
) -> None:
    needed = replace(python("print('here'); print('why'); raise SystemExit(7)"), is_needed=True, beats=True)
    other = Child("other", SLEEP, beats=False)
    reason = r"^child ended with exit code 7 before it answered \(why\)$"
    with (
        pytest.raises(NeverServed, match=reason),
        Supervisor([needed, other], output=lines, patience=QUICK) as supervisor,
    ):
        assert supervisor.wait(60)
    assert supervisor.pids() == {}
    assert lines.of("child") == ["here", "why"]


def test_a_needed_child_that_has_served_is_started_again(lines: Lines) -> None:
    needed = Child("needed", SLEEP, is_needed=True)
    with Supervisor([needed], output=lines, heartbeats=Beats(needed=0.0), patience=QUICK) as supervisor:
        assert supervisor.wait_ready(60) == ()
        first = supervisor.pids()["needed"]
        os.kill(first, signal.SIGKILL)
        until(lambda: supervisor.pids().get("needed", first) != first)


def test_a_child_that_cannot_work_with_its_redis_is_not_started_again_and_ends_the_others(
    lines: Lines,
) -> None:
    children = [python("print('here'); raise SystemExit(78)"), Child("well", SLEEP, beats=False)]
    with (
        pytest.raises(UnsupportedRedis, match="child cannot work with its Redis"),
        Supervisor(children, output=lines, patience=QUICK) as supervisor,
    ):
        assert supervisor.wait(60)
    assert lines.of("child") == ["here"]
    assert supervisor.pids() == {}


def test_an_error_of_the_supervisor_itself_is_not_taken_for_a_stop(lines: Lines) -> None:
    def broken(names: Sequence[str]) -> Mapping[str, Heartbeat | None]:
        raise ValueError("broken")

    children = [Child("worker", SLEEP)]
    with (
        pytest.raises(ValueError, match="broken"),
        Supervisor(children, output=lines, heartbeats=broken, patience=QUICK) as supervisor,
    ):
        assert supervisor.wait(60)
    assert supervisor.pids() == {}


def test_a_command_that_is_not_there_is_tried_again_and_the_others_run(lines: Lines) -> None:
    children = [Child("missing", ("/no/such/command",), beats=False), Child("well", SLEEP, beats=False)]
    with Supervisor(children, output=lines, patience=QUICK) as supervisor:
        until(lambda: any("missing ended" in line for line in lines.of("chorale")))
        assert "well" in supervisor.pids()


def beating(lines: Lines, beats: Beats, **patience: float) -> Supervisor:
    """A supervisor of one worker with these heartbeats."""
    changed = replace(QUICK, **patience)
    return Supervisor([Child("worker", SLEEP)], output=lines, heartbeats=beats, patience=changed)


def test_a_stopped_child_with_a_stale_heartbeat_is_restarted(lines: Lines) -> None:
    beats = Beats(worker=0.0)
    with beating(lines, beats, hung_after_s=0.2) as supervisor:
        assert supervisor.wait_ready(60) == ()
        first = supervisor.pids()["worker"]
        os.kill(first, signal.SIGSTOP)
        beats.ages_s["worker"] = 100.0
        until(lambda: supervisor.pids().get("worker", first) != first)
        beats.ages_s["worker"] = 0.0
        assert supervisor.wait_ready(60) == ()
        assert not runs(first)
    assert "worker hangs: no heartbeat" in lines.of("chorale")[0]


def test_a_child_waits_for_those_of_level_0_to_take_messages_and_not_until_they_are_ready(
    lines: Lines,
) -> None:
    starting = Heartbeat("redis", 0.0, is_ready=False)
    beats = {"redis": starting}
    children = [Child("redis", SLEEP, level=0), Child("http", SLEEP, level=2, beats=False)]
    with Supervisor(children, output=lines, heartbeats=lambda _: beats, patience=QUICK) as supervisor:
        until(supervisor.pids)
        assert supervisor.wait_ready(0.5) == ("redis", "http")
        assert (set(supervisor.pids()), supervisor.is_serving) == ({"redis"}, False)
        beats["redis"] = replace(starting, about={"host": "here"})
        until(lambda: supervisor.is_serving)
        assert set(supervisor.pids()) == {"redis", "http"}
        assert supervisor.wait_ready(0) == ("redis",)


def test_the_children_that_are_not_ready_have_the_reasons_of_their_heartbeats(lines: Lines) -> None:
    missing = {"bm25": ("no index",), "vector": ("no model", "no index"), "hyde": ("no index",), "fusion": ()}
    beats = {
        name: Heartbeat(name, 0.0, is_ready=not why, missing=why, about={"host": "here"})
        for name, why in missing.items()
    }
    children = [Child(name, SLEEP) for name in missing]
    with Supervisor(children, output=lines, heartbeats=lambda _: beats, patience=QUICK) as supervisor:
        until(lambda: supervisor.is_serving)
        assert supervisor.reasons() == {"no index": ["bm25", "hyde"], "no model; no index": ["vector"]}


def test_a_child_without_a_first_heartbeat_is_restarted_after_the_longer_start_limit(lines: Lines) -> None:
    patience = replace(QUICK, hung_after_s=0.05, start_s=0.6)
    with Supervisor([Child("mute", SLEEP)], output=lines, patience=patience):
        until(lambda: lines.of("chorale"))
    assert "mute hangs: no heartbeat for " in lines.of("chorale")[0]
    assert "for 0 s" not in lines.of("chorale")[0]


@pytest.mark.parametrize(
    ("age_s", "patience"),
    [(1_000.0, {"fresh_s": 2_000}), (None, {"hung_after_s": 0.1, "start_s": 0.1})],
    ids=["left by the run before", "unknown"],
)
def test_a_heartbeat_that_says_nothing_makes_no_child_ready_and_restarts_none(
    lines: Lines, age_s: float | None, patience: dict[str, float]
) -> None:
    beats = Beats(worker=age_s)
    with beating(lines, beats, **patience) as supervisor:
        beats.wait_for(10)
        assert supervisor.wait_ready(0) == ("worker",)
    assert lines.all == []


def test_a_paused_child_does_not_count_as_hung_and_goes_on_when_resumed(lines: Lines) -> None:
    beats = Beats(worker=0.0)
    with beating(lines, beats, hung_after_s=0.1) as supervisor:
        assert supervisor.wait_ready(60) == ()
        process = psutil.Process(supervisor.pids()["worker"])
        supervisor.pause("worker")
        beats.ages_s["worker"] = 100.0
        until(lambda: process.status() == psutil.STATUS_STOPPED)
        beats.wait_for(5)
        assert process.status() == psutil.STATUS_STOPPED
        beats.ages_s["worker"] = 0.0
        supervisor.resume("worker")
        until(lambda: process.status() != psutil.STATUS_STOPPED)
        assert supervisor.pids()["worker"] == process.pid
    assert lines.all == []


def test_the_others_start_side_by_side_when_level_0_is_ready_and_the_highest_level_stops_first() -> None:
    order: list[str] = []
    say_goodbye = (
        "import signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {15})\n"
        "print('here', flush=True)\n"
        "signal.sigwait({15})\n"
        "print('bye', flush=True)"
    )
    command, beats = (sys.executable, "-c", say_goodbye), Beats(low=None)
    children = [
        Child("high", command, level=2, beats=False),
        Child("middle", command, beats=False),
        Child("low", command, level=0),
    ]

    def output(name: str, line: bytes) -> None:
        order.append(f"{name} {line.decode()}")

    with Supervisor(children, output=output, heartbeats=beats, patience=QUICK) as supervisor:
        until(lambda: "low here" in order)
        assert supervisor.pids().keys() == {"low"}
        beats.ages_s["low"] = 0.0
        until(lambda: {"middle here", "high here"} <= {*order})
    assert (order[0], order[3:]) == ("low here", ["high bye", "middle bye", "low bye"])


def test_a_process_that_ignores_sigterm_is_killed_with_its_children(lines: Lines) -> None:
    deaf = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(15, signal.SIG_IGN)\n"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid, flush=True)\n"
        "time.sleep(600)"
    )
    with Supervisor([python(deaf)], output=lines, patience=Patience(stop_s=0.2)) as supervisor:
        until(lambda: lines.of("child"))
        pid = supervisor.pids()["child"]
    until(lambda: not runs(pid) and not runs(int(lines.of("child")[0])))
    assert lines.of("chorale") == ["child did not end when asked to; it is killed"]


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no process is forked")


def worker(name: str, home: Path) -> Child:
    """A worker that waits for a Redis that is away."""
    environment = {
        "CHORALE_HOME": str(home),
        "CHORALE_REDIS_URL": "redis://127.0.0.1:1/0",
        "PYTHONPATH": str(ROOT),
    }
    return Child(
        name, (sys.executable, "-m", "cli", "worker", "bm25", "--name", name), environment, beats=False
    )


def address_of_arguments(pid: int) -> int:
    """Processes that have the same one are forks: each program is loaded at addresses of its own."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[45])


def waits_for_redis(lines: Lines, name: str) -> int:
    return sum("waits for Redis" in line for line in lines.of(name))


@on_linux
@pytest.mark.slow
def test_the_first_runs_of_our_commands_are_forks_of_one_process_and_the_next_run_is_a_program_of_its_own(
    lines: Lines, tmp_path: Path
) -> None:
    children = [worker("a", tmp_path), worker("b", tmp_path), Child("other", SLEEP, beats=False)]
    with Supervisor(children, output=lines, patience=QUICK) as supervisor:
        until(lambda: waits_for_redis(lines, "a") and waits_for_redis(lines, "b"), 60)
        first = supervisor.pids()
        assert {child.pid for child in psutil.Process().children()} >= {*first.values()}
        assert address_of_arguments(first["a"]) == address_of_arguments(first["b"])
        for child in children:
            assert tuple(psutil.Process(first[child.name]).cmdline()) == child.argv
        os.kill(first["a"], signal.SIGKILL)
        until(lambda: waits_for_redis(lines, "a") == 2, 60)
        assert address_of_arguments(supervisor.pids()["a"]) != address_of_arguments(first["b"])
    assert lines.of("chorale") == ["a was ended by signal 9; it starts again in 0.05 s"]
    assert not any(map(runs, first.values()))


@on_linux
@pytest.mark.slow
def test_where_the_process_that_forks_is_killed_each_child_is_a_program_of_its_own(
    lines: Lines, tmp_path: Path
) -> None:
    def template() -> psutil.Process | None:
        ours = psutil.Process().children()
        return next((child for child in ours if "cli.local.template" in child.cmdline()), None)

    with Supervisor([worker("a", tmp_path)], output=lines, patience=QUICK):
        killed = until(template)
        assert killed is not None
        killed.kill()
        until(lambda: waits_for_redis(lines, "a"), 60)
    assert lines.of("chorale") == []


@on_linux
@pytest.mark.slow
def test_nothing_that_is_imported_before_a_fork_starts_a_thread() -> None:
    program = (
        "import os\n"
        "from cli.local import template\n"
        "for name in template.IMPORTED: template.import_module(name)\n"
        "print(len(os.listdir('/proc/self/task')))"
    )
    assert printed(program, 60, **dict.fromkeys(VARIABLES, "1")) == ["1"]


Supervised = Callable[..., tuple[subprocess.Popen[str], dict[str, int]]]


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervised]:
    """Starts `supervised.py` and gives the process and its children's numbers."""
    started: list[subprocess.Popen[str]] = []

    def start(mode: str, stdin: int = subprocess.DEVNULL) -> tuple[subprocess.Popen[str], dict[str, int]]:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("supervised.py")), mode],
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout is not None
        pids: dict[str, int] = json.loads(process.stdout.readline())
        assert pids.keys() >= {"redis", "sleeper", "stopped", "stubborn"}
        assert all(runs(pid) for pid in pids.values())
        return process, pids

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def to_another_thread(process: subprocess.Popen[str]) -> None:
    threads = [thread.id for thread in psutil.Process(process.pid).threads()]
    other = next(thread for thread in threads if thread != process.pid)
    assert ctypes.CDLL(None).tgkill(process.pid, other, signal.SIGTERM) == 0


@pytest.mark.parametrize(
    "end",
    [
        lambda process: process.terminate(),
        pytest.param(lambda process: process.send_signal(signal.SIGINT), marks=pytest.mark.slow),
        pytest.param(lambda process: process.send_signal(signal.SIGHUP), marks=pytest.mark.slow),
        pytest.param(to_another_thread, marks=pytest.mark.slow),
    ],
    ids=["SIGTERM", "SIGINT", "SIGHUP", "SIGTERM to another thread"],
)
def test_signals_stop_everything_in_order(
    supervised: Supervised, end: Callable[[subprocess.Popen[str]], None]
) -> None:
    process, pids = supervised("plain")
    end(process)
    assert process.wait(60) == 0
    assert not any(runs(pid) for pid in pids.values())


@pytest.mark.slow
def test_sigkill_of_the_supervisor_or_a_closed_terminal_leaves_nothing_running(
    supervised: Supervised,
) -> None:
    killed, pids = supervised("forks")
    assert "worker" in pids
    killed.kill()
    until(lambda: not any(runs(pid) for pid in pids.values()))

    terminal, inside = os.openpty()
    process, pids = supervised("terminal", stdin=inside)
    os.close(inside)
    os.close(terminal)
    process.wait(60)
    until(lambda: not any(runs(pid) for pid in pids.values()))


@pytest.mark.slow
def test_where_the_kernel_does_not_kill_orphans_a_watcher_does() -> None:
    """The way of macOS, which works on Linux too."""
    program = (
        "import sys, time\n"
        "from cli.local.child_process import Child, ChildProcess\n"
        "sleeper = 'import os, time; print(os.getpid(), flush=True); time.sleep(600)'\n"
        "child = Child('sleeper', (sys.executable, '-c', sleeper))\n"
        "run = ChildProcess(child, lambda name, line: print(line.decode(), flush=True), mode='watch')\n"
        "time.sleep(600)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert runs(pid)
        process.kill()
    until(lambda: not runs(pid))


def test_the_watcher_passes_on_the_end_of_its_command(lines: Lines) -> None:
    run = ChildProcess(python("raise SystemExit(7)"), lines, mode="watch")
    until(lambda: run.exit_code is not None)
    assert run.exit_code == 7
    run.kill()

    run = ChildProcess(Child("sleeper", SLEEP), lines, mode="watch")
    until(lambda: psutil.Process(run.pid).children())
    sleeper = psutil.Process(run.pid).children()[0].pid
    run.terminate()
    until(lambda: run.exit_code is not None)
    run.kill()
    assert not runs(sleeper)
