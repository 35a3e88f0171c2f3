"""`make audit`: have the locked versions known weaknesses?  pip-audit asks PyPI.

Exit codes: 0 PyPI knows every version and no weakness, 1 there is a weakness, 3 PyPI did not answer for all.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby, zip_longest
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TypeAlias

Pin: TypeAlias = tuple[str, str]
"""Name and version."""

LOCKS = Path(__file__).parents[1] / "requirements"
_PIN = re.compile(r"^([a-z0-9._-]+)(?:\[[^]]+\])?==(\S+)", re.MULTILINE)
_MOST_NAMED = 10
_PIP_AUDIT = ("-m", "pip_audit", "--format=json", "--no-deps", "--disable-pip", "--progress-spinner=off")


def main() -> int:
    pins = sorted({pin for lock in LOCKS.glob("*.txt") for pin in _PIN.findall(lock.read_text("utf-8"))})
    weaknesses = dict(_weaknesses(pins))
    lines = [f"PyPI answered for {len(weaknesses)} of {len(pins)} locked versions"]
    if unanswered := ["==".join(pin) for pin in pins if pin not in weaknesses]:
        more = f" and {len(unanswered) - _MOST_NAMED} more" if len(unanswered) > _MOST_NAMED else ""
        lines.append(f"NOT CHECKED: {', '.join(unanswered[:_MOST_NAMED])}{more}")
    weak = {pin: ids for pin, ids in weaknesses.items() if ids}
    lines += [f"{'=='.join(pin)}: {', '.join(ids)}" for pin, ids in weak.items()]
    lines.append(f"{len(weak)} of the {len(weaknesses)} versions that were checked have known weaknesses")
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if weak else 3 if unanswered else 0


def _weaknesses(pins: Iterable[Pin]) -> Iterator[tuple[Pin, list[str]]]:
    """The ids of the weaknesses of each version that PyPI knows."""
    # pip-audit takes one version of a package at a time, and a lock has one for each Python.
    for batch in zip_longest(*(list(same) for _, same in groupby(pins, key=lambda pin: pin[0]))):
        with NamedTemporaryFile("w", suffix=".txt") as list_of_pins:
            list_of_pins.write("\n".join("==".join(pin) for pin in batch if pin))
            list_of_pins.flush()
            command = [sys.executable, *_PIP_AUDIT, "--requirement", list_of_pins.name]
            audit = subprocess.run(command, capture_output=True, text=True)
        if not audit.stdout:
            sys.stderr.write(f"PyPI does not answer: {audit.stderr.strip().rpartition(chr(10))[2]}\n")
            return
        for package in json.loads(audit.stdout)["dependencies"]:
            if "vulns" in package:
                weaknesses = [weakness["id"] for weakness in package["vulns"]]
                yield (package["name"], package["version"]), weaknesses


if __name__ == "__main__":
    sys.exit(main())
