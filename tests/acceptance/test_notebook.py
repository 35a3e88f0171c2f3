"""examples/frameworks.ipynb: its code cells run in their order, in one event loop as in Jupyter."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.pipelines.pipeline import RunningPipeline

NOTEBOOK = Path(__file__).parents[2] / "examples" / "frameworks.ipynb"
CELLS = [
    "".join(cell["source"])
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    if cell["cell_type"] == "code"
]


async def run_cells(names: dict[str, Any]) -> None:
    for number, cell in enumerate(CELLS, 1):
        code = compile(cell, f"cell {number}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, names)
        if inspect.isawaitable(result):
            await result


@pytest.mark.long
def test_every_framework_finds_the_document_that_answers(
    pipeline: RunningPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHORALE_REDIS_URL", pipeline.server.tcp_url)
    names: dict[str, Any] = {}
    asyncio.run(run_cells(names))
    frameworks = ("client", "langchain", "haystack", "llama_index", "langgraph", "mcp")
    assert names["best"] == dict.fromkeys(frameworks, "repairs")
