"""README and docs/start.md as somebody types them, block after block."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from cli.local.redis_server import is_free
from tests.support.typed_pages import Desk, blocks_of, starts

START = blocks_of("docs/start.md", before="## 6. Update")
# `test_service_wheel.py` installs without a clone.
README = blocks_of("README.md", before="## Install from wheels")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    for port in (8000, 5555):
        if not is_free(port):
            pytest.skip(f"the page's port {port} is taken on this machine")
    return Desk.in_folder(tmp_path)


@pytest.mark.long
@pytest.mark.limit_s(400)
def test_every_command_of_the_start_page_does_what_it_says(desk: Desk) -> None:
    up = next(place for place, block in enumerate(START, 1) if starts(block))
    with desk.first_terminal(START[:up]) as terminal:
        printed = desk.type(START[up:])
        assert "3 added" in printed
        # By Celery, by the client, and over HTTP.
        assert "complete ['my-docs/repairs.md'" in printed
        assert "complete [(1, 'my-docs/repairs.md')" in printed
        assert '"document_id":"my-docs/repairs.md"' in printed
        # The facts of the job when it has ended.
        assert re.search(r"^complete +1,000", printed, re.MULTILINE), printed
        with httpx.Client(base_url="http://127.0.0.1:5555", timeout=60) as flower:
            (login,) = re.findall(r"login (\S+:\S+)", terminal.printed)
            assert flower.get("/workers", auth=tuple(login.split(":"))).status_code == 200


@pytest.mark.limit_s(400)
def test_every_command_of_the_readme_does_what_it_says(desk: Desk) -> None:
    up = next(place for place, block in enumerate(README, 1) if starts(block))
    with desk.first_terminal(README[:up]):
        printed = desk.type(README[up:])
    assert "1 added" in printed
    assert "my-docs/repairs.md" in printed
    # By the client, and over HTTP.
    assert "complete [(1, 'repairs')]\n[]" in printed
    assert '"document_id":"my-docs/repairs.md"' in printed
    # The key for somebody else.
    assert re.search(r"chorale_[\w-]{20,}\n", printed), printed
