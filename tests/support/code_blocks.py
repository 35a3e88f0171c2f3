"""The code blocks of README and docs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "client/README.md")),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    ]
)
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class CodeBlock:
    page: str
    line: int
    language: str
    code: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def code_blocks(language: str | None = None) -> list[CodeBlock]:
    """Returns the blocks of one language, or all blocks."""
    return [
        CodeBlock(str(page.relative_to(ROOT)), text.count("\n", 0, block.start()) + 1, *block.groups())
        for page in PAGES
        for text in [page.read_text(encoding="utf-8")]
        for block in _BLOCK.finditer(text)
        if language in (None, block[1])
    ]
