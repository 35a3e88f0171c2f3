"""`make audit` and `make sbom`: known weaknesses of what is locked, and a list of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import deploy.audit_locks
from deploy.audit_locks import LOCKS, main

ROOT = Path(__file__).parents[2]
INSTALLED = (ROOT / ".venv" / ".supply-chain").exists()
needs_tools = pytest.mark.skipif(not INSTALLED and "CI" not in os.environ, reason="make supply-chain")

LOCK = "fine==1.0 \\\n    --hash=sha256:00\nweak[extra]==1.4 ; python_version < '3.12' \\\nweak==2.0 \\\n"


@pytest.fixture
def answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], list[str]]:
    """What PyPI says of three locked versions; nothing at first."""
    answers: dict[tuple[str, str], list[str]] = {}
    (tmp_path / "base.txt").write_text(LOCK)
    monkeypatch.setattr(deploy.audit_locks, "LOCKS", tmp_path)
    monkeypatch.setattr(deploy.audit_locks, "_weaknesses", lambda pins: answers.items())
    return answers


def test_the_audit_is_green_only_if_pypi_answers_for_every_version(
    answered: dict[tuple[str, str], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main() == 3
    assert "answered for 0 of 3" in (said := capsys.readouterr().out)
    assert "NOT CHECKED: fine==1.0, weak==1.4, weak==2.0" in said
    answered |= {("fine", "1.0"): [], ("weak", "1.4"): []}
    assert main() == 3
    answered[("weak", "2.0")] = []
    assert main() == 0
    answered[("weak", "2.0")] = ["CVE-1"]
    assert main() == 1
    assert "weak==2.0: CVE-1" in capsys.readouterr().out


@needs_tools
@pytest.mark.slow
def test_without_a_network_the_audit_says_that_nothing_was_checked(tmp_path: Path) -> None:
    proxies = dict.fromkeys(("HTTPS_PROXY", "https_proxy"), "http://127.0.0.1:9")
    nothing_cached = dict.fromkeys(("PIP_CACHE_DIR", "XDG_CACHE_HOME"), str(tmp_path))
    environment = os.environ | proxies | nothing_cached | {"NO_PROXY": "", "no_proxy": ""}
    command = [sys.executable, "-m", "deploy.audit_locks"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 3
    assert "PyPI does not answer" in done.stderr
    assert "PyPI answered for 0 of" in done.stdout
    assert "NOT CHECKED" in done.stdout


@needs_tools
@pytest.mark.slow
def test_every_locked_package_of_the_service_is_in_the_sbom_with_its_version_and_hashes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "out" / "sbom.json"
    made = subprocess.run(
        ["make", "--no-print-directory", "--old-file=supply-chain", "sbom", f"SBOM={path}"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert made.stdout.splitlines()[-1] == str(path)
    sbom = json.loads(path.read_text())
    assert (sbom["bomFormat"], sbom["metadata"]["component"]["name"]) == ("CycloneDX", "chorale-retrieval")
    components = {
        (one["name"], one["version"], frozenset(hashes_of(one["externalReferences"])))
        for one in sbom["components"]
    }
    assert components == {pin for lock in ("base", "model") for pin in pins_of(LOCKS / f"{lock}.txt")}


def hashes_of(references: Iterable[dict[str, Any]]) -> Iterable[str]:
    return (
        one["content"] for reference in references for one in reference["hashes"] if one["alg"] == "SHA-256"
    )


def pins_of(lock: Path) -> Iterable[tuple[str, str, frozenset[str]]]:
    for part in re.split(r"\n(?=[a-z])", lock.read_text("utf-8"))[1:]:
        name, version = re.match(r"([a-z0-9._-]+)[^=]*==(\S+)", part).groups()  # type: ignore[union-attr]
        yield name, version, frozenset(re.findall(r"--hash=sha256:(\w+)", part))
