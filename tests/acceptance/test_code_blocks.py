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
def test_the_python_of_a_page_runs(block: CodeBlock, pipeline: RunningPipeline) -> None:
    code = block.code.replace("redis://localhost:6379/0", pipeline.server.tcp_url)
    assert pipeline.server.tcp_url in code
    exec(compile(code, str(block), "exec"), {})
