"""The Python blocks of README and docs run against a pipeline, those of a page one after the other."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.code_blocks import code_blocks
from tests.support.pipelines.pipeline import RunningPipeline

APPLICATION_PAGE = "docs/guides/celery.md"
"""`test_plain_celery.py` runs this page in an application without the client."""
BLOCKS = code_blocks("python")
PAGES = sorted({block.page for block in BLOCKS} - {APPLICATION_PAGE})


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs(
    page: str, pipeline: RunningPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHORALE_REDIS_URL", pipeline.server.tcp_url)
    monkeypatch.setenv("CHORALE_CELLS", ",".join(f"{cell}={pipeline.server.tcp_url}" for cell in ("a", "b")))
    names: dict[str, Any] = {}
    for block in BLOCKS:
        if block.page == page:
            # Otherwise the `from __future__` of this file would hold in the block too.
            exec(compile(block.code, str(block), "exec", dont_inherit=True), names)


def test_no_page_shows_an_address_that_chorale_up_does_not_have() -> None:
    assert [str(block) for block in BLOCKS if "redis://" in block.code] == []
