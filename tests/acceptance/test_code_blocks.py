"""The Python blocks of README and docs run against a pipeline."""

from __future__ import annotations

import pytest

from tests.support.code_blocks import CodeBlock, code_blocks
from tests.support.pipelines.pipeline import RunningPipeline

OF_AN_APPLICATION = "docs/guides/celery.md"
"""A page whose blocks belong together; `test_plain_celery.py` runs them in an application without the client."""


@pytest.mark.parametrize(
    "block", [block for block in code_blocks("python") if block.page != OF_AN_APPLICATION], ids=str
)
def test_the_python_of_a_page_runs(
    block: CodeBlock, pipeline: RunningPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHORALE_REDIS_URL", pipeline.server.tcp_url)
    # Otherwise the `from __future__` of this file would hold in the block too.
    exec(compile(block.code, str(block), "exec", dont_inherit=True), {})


def test_no_page_shows_an_address_that_chorale_up_does_not_have() -> None:
    assert [str(block) for block in code_blocks("python") if "redis://" in block.code] == []
