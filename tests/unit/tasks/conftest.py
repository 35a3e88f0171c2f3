from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog

from tests.support.pipelines.plain_tracebacks import log_plainly


@pytest.fixture(autouse=True)
def _plain_tracebacks() -> Iterator[None]:
    log_plainly()
    yield
    structlog.reset_defaults()
