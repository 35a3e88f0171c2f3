"""These tests need root and take minutes, so only `make test-machines` collects them."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("CHORALE_TEST_MACHINES") else ["test_*.py"]
