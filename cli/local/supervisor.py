"""Keeps child processes running: starts them in order, restarts dead and hung ones, and stops all at the end."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Self

from cli.exit_codes import UNSUPPORTED
from cli.local.child_process import Child, ChildProcess, Output
from cli.local.template import Template
from models.errors import ServiceError, UnsupportedRedis
from monitoring.heartbeats import Heartbeat

NAME = "chorale"
"""Process name of the supervisor's own lines."""
READY_LIMIT_S = 150.0
"""Longer than the supervisor gives one worker to start, so that one restart has been tried."""

_WAKES_S = 0.5

Heartbeats = Callable[[Sequence[str]], Mapping[str, Heartbeat | None]]
"""The heartbeats of the named children.  A missing name has no heartbeat; None means that it cannot be known now."""


@dataclass(frozen=True, slots=True)
class Patience:
    """The supervisor's time limits, in seconds."""

    fresh_s: float = 3.0
    """An older heartbeat counts as missing."""
    hung_after_s: float = 12.0
    """A child that has had a heartbeat counts as hung after this time without a fresh one."""
    start_s: float = 120.0
    """Limit for the first heartbeat of a child, which reads its model from disk or downloads it."""
    restart_delay_s: float = 0.5
    stop_s: float = 10.0
    """Between SIGTERM and SIGKILL."""
    poll_s: float = 0.1
    listen_every_s: float = 1.0


class NeverServed(ServiceError):
    """A child that is needed has ended before it served once."""


class _Watched:
    """One child, its present run, and its state; times are monotonic seconds."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.run: ChildProcess | None = None
        self.start_at = 0.0
        self.started_at = 0.0
        self.last_beat_at = 0.0
        self.has_beaten = False
        self.is_ready = False
        self.is_serving = False
        self.missing: tuple[str, ...] = ()
        self.has_served = False
        self.is_paused = False

    def hear(self, beats: Mapping[str, Heartbeat | None], now: float, patience: Patience) -> None:
        beat = beats.get(self.child.name)
        if self.is_paused or (beat is None and self.child.name in beats):
            self.last_beat_at = now
        # A heartbeat older than this run is of the run before.
        elif beat is not None and beat.age_s <= min(patience.fresh_s, now - self.started_at):
            self.last_beat_at, self.has_beaten = now, True
            self.is_ready, self.is_serving, self.missing = beat.is_ready, beat.is_serving, beat.missing
            self.has_served |= self.is_serving

    def is_hung(self, now: float, patience: Patience) -> bool:
        limit_s = patience.hung_after_s if self.has_beaten else patience.start_s
        return self.child.beats and not self.is_paused and now - self.last_beat_at > limit_s


class Supervisor:
    """Runs children until it is stopped; as a context manager it starts them, and stops them with the block.

    One thread starts all children, and ends all of them if it fails.  The names of the children must differ.
    """

    def __init__(
        self,
        children: Sequence[Child],
        *,
        output: Output,
        heartbeats: Heartbeats = lambda names: {},
        patience: Patience | None = None,
    ) -> None:
        self._watched = {child.name: _Watched(child) for child in children}
        self._levels = sorted({child.level for child in children})
        self._beating = [child.name for child in children if child.beats]
        self._output = output
        self._last_lines: dict[str, bytes] = {}
        self._heartbeats = heartbeats
        self._patience = patience or Patience()
        self._listen_at = 0.0
        self._lock = threading.Lock()
        # A plain number: a signal handler increments it, and the thread that it interrupts could hold a lock.
        self._stop_requests = 0
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._supervise, name="supervisor", daemon=True)

    def request_stop(self) -> None:
        """Begin to stop, from any thread or signal handler; a second call kills the children at once."""
        self._stop_requests += 1

    @property
    def is_stopping(self) -> bool:
        return self._stop_requests > 0

    @property
    def is_serving(self) -> bool:
        """Whether every child takes messages, perhaps without its model."""
        return all(watched.is_serving for watched in self._watched.values())

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until all children have ended; returns False if the time ran out."""
        give_up = time.monotonic() + (math.inf if timeout_s is None else timeout_s)
        while self._thread.is_alive() and (remaining_s := give_up - time.monotonic()) > 0:
            # The kernel may give a signal to another thread, and then only a thread that wakes runs its handler.
            self._thread.join(min(remaining_s, _WAKES_S))
        return not self._thread.is_alive()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all children, the highest level first, and wait until they have ended.  Raises what ended the supervisor."""
        self.request_stop()
        self.wait()
        if self._error is not None:
            raise self._error

    def wait_ready(self, timeout_s: float) -> tuple[str, ...]:
        """Wait until every child is ready; returns the names of those that are not when the time or the run ends."""
        give_up = time.monotonic() + timeout_s
        while True:
            missing = tuple(name for name, watched in self._watched.items() if not watched.is_ready)
            if not missing or time.monotonic() >= give_up or self._stop_requests or self.wait(0):
                return missing
            time.sleep(0.02)

    def reasons(self) -> dict[str, list[str]]:
        """The names of the children that are not ready, by what is missing.  A child whose heartbeat says nothing yet is left out."""
        names: dict[str, list[str]] = {}
        for name, watched in self._watched.items():
            if watched.missing and not watched.is_ready:
                names.setdefault("; ".join(watched.missing), []).append(name)
        return names

    def require_ready(self) -> None:
        """Wait until every child is ready; raises ServiceError after READY_LIMIT_S."""
        if missing := self.wait_ready(READY_LIMIT_S):
            raise ServiceError(f"not ready within {READY_LIMIT_S:.0f} s: {', '.join(missing)}")

    def pids(self) -> dict[str, int]:
        """Process id of each running child, by name."""
        with self._lock:
            return {
                name: watched.run.pid for name, watched in self._watched.items() if watched.run is not None
            }

    def pause(self, name: str) -> None:
        """Stop a child with SIGSTOP; it does not count as hung."""
        self._set_paused(name, True)

    def resume(self, name: str) -> None:
        self._set_paused(name, False)

    def _set_paused(self, name: str, is_paused: bool) -> None:
        with self._lock:
            watched = self._watched[name]
            watched.is_paused, watched.last_beat_at = is_paused, time.monotonic()
            if watched.run is not None:
                watched.run.signal(signal.SIGSTOP if is_paused else signal.SIGCONT)

    def _supervise(self) -> None:
        children = [watched.child for watched in self._watched.values()]
        try:
            with closing(Template(children, limit_s=self._patience.start_s)) as self._template:
                while not self._stop_requests:
                    now = time.monotonic()
                    beats = self._listen(now)
                    with self._lock:
                        for watched in self._watched.values():
                            self._check(watched, beats, now)
                    time.sleep(self._patience.poll_s)
        except Exception as error:
            self._error = error
        finally:
            with self._lock:
                self._end_all()

    def _listen(self, now: float) -> Mapping[str, Heartbeat | None] | None:
        """Read the heartbeats; None while it is not time for that."""
        if now < self._listen_at:
            return None
        # Until all children are ready, heartbeats are read at every turn, so that the start takes no longer than it must.
        is_starting = any(not watched.is_ready for watched in self._watched.values())
        self._listen_at = now + (0.0 if is_starting else self._patience.listen_every_s)
        return self._heartbeats(self._beating)

    def _check(self, watched: _Watched, beats: Mapping[str, Heartbeat | None] | None, now: float) -> None:
        if watched.run is None:
            if now >= watched.start_at and self._may_start(watched.child.level):
                self._start(watched)
            return
        if (code := watched.run.exit_code) is not None:
            if code == UNSUPPORTED:
                raise UnsupportedRedis(
                    f"{watched.child.name} cannot work with its Redis", "see its last line"
                )
            why = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            if watched.child.is_needed and not watched.has_served:
                raise NeverServed(
                    f"{watched.child.name} {why} before it answered ({self._last_line(watched)})"
                )
            self._plan_restart(watched, why, now)
        elif beats is not None:
            watched.hear(beats, now, self._patience)
            if watched.is_hung(now, self._patience):
                self._plan_restart(
                    watched, f"hangs: no heartbeat for {now - watched.last_beat_at:.0f} s", now
                )

    def _may_start(self, level: int) -> bool:
        servers = (each for each in self._watched.values() if each.child.level == 0)
        return level == 0 or (all(each.is_serving for each in servers) and self._template.has_ended())

    def _start(self, watched: _Watched) -> None:
        try:
            forked = self._template.forked.pop(watched.child.name, None)
            watched.run = ChildProcess(watched.child, self._pass_on, forked=forked)
        except OSError as error:
            self._plan_restart(watched, f"could not be started: {error}", time.monotonic())
            return
        watched.started_at = watched.last_beat_at = time.monotonic()
        watched.has_beaten, watched.is_paused = False, False
        watched.is_ready = watched.is_serving = not watched.child.beats

    def _plan_restart(self, watched: _Watched, why: str, now: float) -> None:
        if watched.run is not None:
            watched.run.kill()
        delay_s = self._patience.restart_delay_s
        watched.run, watched.start_at = None, now + delay_s
        watched.is_ready = watched.is_serving = False
        watched.missing = ()
        self._say(f"{watched.child.name} {why}; it starts again in {delay_s:g} s")

    def _last_line(self, watched: _Watched) -> str:
        assert watched.run is not None
        watched.run.kill()  # waits until all lines of the ended child have been read
        return self._last_lines.get(watched.child.name, b"").decode(errors="replace")

    def _end_all(self) -> None:
        for level in reversed(self._levels):
            here = [watched for watched in self._watched.values() if watched.child.level == level]
            running = {watched.child.name: watched.run for watched in here if watched.run is not None}
            for run in running.values():
                run.terminate()
            give_up = time.monotonic() + self._patience.stop_s
            while self._stop_requests < 2 and time.monotonic() < give_up:
                if all(run.exit_code is not None for run in running.values()):
                    break
                time.sleep(0.02)
            for name, run in running.items():
                if run.exit_code is None:
                    self._say(f"{name} did not end when asked to; it is killed")
                run.kill()
            for watched in here:
                watched.run, watched.is_ready, watched.is_serving = None, False, False

    def _pass_on(self, name: str, line: bytes) -> None:
        self._last_lines[name] = line
        self._output(name, line)

    def _say(self, line: str) -> None:
        self._output(NAME, line.encode(errors="replace"))


def stop_on_signals(supervisor: Supervisor) -> None:
    """Let Ctrl-C, SIGTERM and a closed terminal stop the supervisor; for the main thread."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A process that was started to ignore a signal (`nohup`) goes on ignoring it.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: supervisor.request_stop())
