"""There is hardly a pause before an endpoint is asked again."""

from __future__ import annotations

import pytest

from inference.endpoints import json_endpoint


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_endpoint, "FIRST_PAUSE_S", 0.01)
