"""What the log says of rerankers that are refused, for as long as the attempts to load them go on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import structlog

from models.errors import NotConfigured
from tasks.worker import warming


def test_a_refusal_is_logged_once_and_again_only_when_it_changes() -> None:
    refusals = iter(["no head", "no head", "too deep", "", "too deep"])

    def warm() -> None:
        if refusal := next(refusals):
            raise NotConfigured(refusal)

    resources: Any = SimpleNamespace(reranker=lambda name: SimpleNamespace(warm=warm))
    logged = []
    for _ in range(5):
        with structlog.testing.capture_logs() as logs:
            warming._warm_reranker(resources, "of this test")
        logged.append([line["error"] for line in logs])
    assert logged == [["no head"], [], ["too deep"], [], ["too deep"]]
