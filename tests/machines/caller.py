"""Starts `tests.machines.asking` somewhere, and reads what its requests brought."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from typing import Self

from tests.machines.asking import LATE_S, Asked
from tests.machines.podman import ROOT

ANSWERS = frozenset({"complete", "degraded"})


class Caller:
    """A context manager: asks until its end, which waits for the last answer; then `asked` has all."""

    def __init__(
        self,
        enter: Sequence[str],
        redis_url: str,
        *,
        per_second: float,
        timeout_s: float,
        most: int = 1_000_000,
    ) -> None:
        self.asked: list[Asked] = []
        words = [str(word) for word in (per_second, timeout_s, most)]
        path = os.pathsep.join([str(ROOT / "client"), str(ROOT)])
        self._call = [*enter, "env", f"PYTHONPATH={path}", f"CHORALE_REDIS_URL={redis_url}", sys.executable]
        self._call += ["-m", "tests.machines.asking", *words]
        self._process: subprocess.Popen[str] | None = None
        self._lines = tempfile.TemporaryFile("w+")  # noqa: SIM115  # a pipe would be full before all have ended

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._call, stdin=subprocess.PIPE, stdout=self._lines, text=True, cwd=ROOT
        )
        return self

    def wait(self) -> None:
        """Waits until all `most` requests have ended."""
        assert self._process is not None
        assert self._process.wait() == 0
        self._lines.seek(0)
        self.asked = [Asked(**json.loads(line)) for line in self._lines]

    def __exit__(self, kind: object, *_: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        if kind is not None:
            self._process.kill()
        self._process.stdin.close()
        if kind is None:
            self.wait()
        self._lines.close()

    def outcomes(self) -> Counter[str]:
        return Counter(one.outcome for one in self.asked)

    def late(self) -> list[Asked]:
        return [one for one in self.asked if one.late_s > LATE_S]
