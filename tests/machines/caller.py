"""Starts `tests.machines.asking` somewhere, and reads what its requests brought."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Self

from tests.machines.asking import EndedRequest
from tests.machines.podman import ROOT

ANSWERS = frozenset({"complete", "degraded"})


class _Program:
    """A program of this folder on a host, until the end of the block; then `lines` is what it printed."""

    def __init__(self, enter: Sequence[str], redis_url: str, module: str, *words: object) -> None:
        self.lines: list[str] = []
        path = os.pathsep.join([str(ROOT / "client"), str(ROOT)])
        self._call = [*enter, "env", f"PYTHONPATH={path}", f"CHORALE_REDIS_URL={redis_url}", sys.executable]
        self._call += ["-m", f"tests.machines.{module}", *map(str, words)]
        self._process: subprocess.Popen[str] | None = None
        self._printed = tempfile.TemporaryFile("w+")  # noqa: SIM115  # a pipe would be full before all have ended

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._call, stdin=subprocess.PIPE, stdout=self._printed, text=True, cwd=ROOT
        )
        return self

    def has_printed(self, lines: int) -> bool:
        """Whether it has printed so many lines, each of which is about one request: a busy machine starts it late."""
        printed = self._printed.fileno()  # the program writes at the place where `read` would leave this file
        return os.pread(printed, os.fstat(printed).st_size, 0).count(b"\n") >= lines

    def wait(self) -> None:
        """Waits until the program ends by itself."""
        assert self._process is not None
        assert self._process.wait() == 0
        self._printed.seek(0)
        self.lines = list(self._printed)

    def __exit__(self, kind: object, *_: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        if kind is not None:
            self._process.kill()
        self._process.stdin.close()
        if kind is None:
            self.wait()
        self._printed.close()


class Caller(_Program):
    """A program that asks questions until the block ends, or `most` times, and then waits for the last answer.

    It sends at most `per_second` requests, of which at most `in_flight` run at a time; `limits_s` are their time limits, in turns.
    """

    def __init__(
        self,
        enter: Sequence[str],
        redis_url: str,
        *,
        per_second: float,
        limits_s: Sequence[float],
        most: int = 1_000_000,
        in_flight: int = 100,
    ) -> None:
        super().__init__(enter, redis_url, "asking", per_second, most, in_flight, *limits_s)

    @property
    def requests(self) -> list[EndedRequest]:
        return [EndedRequest(**json.loads(line)) for line in self.lines]

    def outcomes(self, *, timeout_s: float | None = None) -> Counter[str]:
        """How the requests ended; with `timeout_s`, only the requests that have this time limit."""
        return Counter(one.outcome for one in self.requests if timeout_s in (None, one.timeout_s))

    def lateness(self) -> str:
        """A record of a run."""
        passed = [one for one in self.requests if one.late_s > 0]
        longest_s = max((one.late_s for one in passed), default=0.0)
        bounded_s = max((one.late_s - one.starved_s for one in passed), default=0.0)
        starved_s = median(one.starved_s for one in passed or self.requests)
        return (
            f"{len(self.requests)} requests; {len(passed)} ended after their deadline, the last one {longest_s:.3f} s after it, "
            f"and at most {bounded_s:.3f} s without the time that threads waited for a processor; "
            f"the median of this time is {starved_s:.3f} s"
        )


class Sender(_Program):
    """A program that sends requests until the block ends, and then looks for each of them."""

    def __init__(self, enter: Sequence[str], redis_url: str, *, replicas: int) -> None:
        super().__init__(enter, redis_url, "sending", replicas)

    @property
    def counts(self) -> dict[str, int]:
        """`sent`, `unsure` and `lost` requests."""
        return dict(json.loads(self.lines[-1]))
