"""docs/guides/graph.md as somebody types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.code_blocks import CodeBlock, code_blocks
from tests.support.typed_pages import Desk, blocks_of, starts

PAGE = "docs/guides/graph.md"


@pytest.mark.slow
@pytest.mark.limit_s(400)
def test_the_page_leads_from_the_declaration_to_the_hit(tmp_path: Path) -> None:
    desk = Desk.in_folder(tmp_path)
    pipeline = next(block for block in code_blocks("toml") if block.page == PAGE)
    (desk.folder / "pipeline.toml").write_text(pipeline.code)
    blocks = blocks_of(PAGE, before="## The statement")
    up = next(place for place, block in enumerate(blocks, 1) if starts(block))
    path = CodeBlock(PAGE, 0, "sh", 'export PATH="$PWD/.venv/bin:$PATH"\n')
    with desk.first_terminal([path, *blocks[:up]]):
        printed = desk.type([path, *blocks[up:]])
    assert "3 added" in printed
    assert "rules/statute-9.md" in printed
    assert "cited" in printed
