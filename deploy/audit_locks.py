"""`make audit`: have the locked versions known weaknesses?  pip-audit asks PyPI.

What PyPI does not answer is looked up in a copy of OSV's database, if one is given: the file `all.zip` of
https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip.  Exit codes: 0 PyPI knows every version and no weakness, 1 there
is a weakness, 3 PyPI did not answer for all.
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
from typing import Any, TypeAlias
from zipfile import ZipFile

from packaging.utils import canonicalize_name
from packaging.version import Version

Pin: TypeAlias = tuple[str, str]
"""Name and version."""

LOCKS = Path(__file__).parents[1] / "requirements"
_PIN = re.compile(r"^([a-z0-9._-]+)(?:\[[^]]+\])?==(\S+)", re.MULTILINE)
_SHOWN = 10
_PIP_AUDIT = ("-m", "pip_audit", "--format=json", "--no-deps", "--disable-pip", "--progress-spinner=off")


def main(arguments: list[str]) -> int:
    pins = sorted({pin for lock in LOCKS.glob("*.txt") for pin in _PIN.findall(lock.read_text("utf-8"))})
    weaknesses = dict(_asked_of_pypi(pins))
    unanswered = [pin for pin in pins if pin not in weaknesses]
    said = [f"PyPI answered for {len(weaknesses)} of {len(pins)} locked versions"]
    if unanswered and arguments:
        found, newest = looked_up(unanswered, Path(arguments[0]))
        weaknesses |= found
        said.append(
            f"OFFLINE: the other {len(unanswered)} were looked up in a copy of OSV's database of {newest:.10}"
        )
    elif unanswered:
        some = ", ".join("==".join(pin) for pin in unanswered[:_SHOWN])
        more = f" and {len(unanswered) - _SHOWN} more" if len(unanswered) > _SHOWN else ""
        said.append(f"NOT CHECKED: {some}{more}.  With a copy of OSV's database: make audit OSV=all.zip")
    weak = {pin: ids for pin, ids in weaknesses.items() if ids}
    said += [f"{'=='.join(pin)}: {', '.join(ids)}" for pin, ids in weak.items()]
    said.append(f"{len(weak)} of the {len(weaknesses)} versions that were checked have known weaknesses")
    sys.stdout.write("\n".join(said) + "\n")
    return 1 if weak else 3 if unanswered else 0


def _asked_of_pypi(pins: Iterable[Pin]) -> Iterator[tuple[Pin, list[str]]]:
    """The ids of the weaknesses of each version that PyPI knows."""
    # pip-audit takes one version of a package at a time, and a lock has one for each Python.
    for one_of_each in zip_longest(*(list(same) for _, same in groupby(pins, key=lambda pin: pin[0]))):
        with NamedTemporaryFile("w", suffix=".txt") as list_of_pins:
            list_of_pins.write("\n".join("==".join(pin) for pin in one_of_each if pin))
            list_of_pins.flush()
            command = [sys.executable, *_PIP_AUDIT, "--requirement", list_of_pins.name]
            asked = subprocess.run(command, capture_output=True, text=True)
        if not asked.stdout:
            sys.stderr.write(f"PyPI does not answer: {asked.stderr.strip().rpartition(chr(10))[2]}\n")
            return
        for one in json.loads(asked.stdout)["dependencies"]:
            if "vulns" in one:
                yield (one["name"], one["version"]), [weakness["id"] for weakness in one["vulns"]]


def looked_up(pins: Iterable[Pin], copy: Path) -> tuple[dict[Pin, list[str]], str]:
    """The ids of the weaknesses of each version in a copy of OSV's database, and the time of its newest entry."""
    found: dict[Pin, list[str]] = {pin: [] for pin in pins}
    newest = ""
    with ZipFile(copy) as entries:
        for entry in (json.loads(entries.read(name)) for name in entries.namelist()):
            newest = max(newest, entry["modified"])
            if "withdrawn" not in entry:
                for affected in entry.get("affected", ()):
                    name = canonicalize_name(affected["package"]["name"])
                    for pin in found:
                        if pin[0] == name and _is_in(affected, pin[1]):
                            found[pin].append(entry["id"])
    return found, newest


def _is_in(affected: Any, version: str) -> bool:
    """Whether a version is in the list or in a range of an entry (https://ossf.github.io/osv-schema/#evaluation)."""
    ranges = (one["events"] for one in affected.get("ranges", ()) if one["type"] == "ECOSYSTEM")
    return version in affected.get("versions", ()) or any(
        _is_between(Version(version), one) for one in ranges
    )


def _is_between(version: Version, events: Iterable[dict[str, str]]) -> bool:
    inside = False
    for at, kind in sorted((Version(at), kind) for event in events for kind, at in event.items()):
        if kind == "last_affected":
            inside = inside and version <= at
        elif version >= at:
            inside = kind == "introduced"
    return inside


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
