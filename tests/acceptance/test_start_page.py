"""docs/start.md and README as somebody types them, block after block, in one installation with replicas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from cli.local.redis_server import is_free
from tests.support.code_blocks import CodeBlock
from tests.support.typed_pages import Desk, FirstTerminal, blocks_of, starts

START = blocks_of("docs/start.md", before="## 6. Update")
# `test_service_wheel.py` installs without a clone.
README = blocks_of("README.md", before="## Install without a clone")


REPLICAS = CodeBlock("replicas", 1, "sh", "export CHORALE_LAYOUT=replicas\n")
LEFT = "export PATH=$PWD/.venv/bin:$PATH; chorale namespaces delete docs --yes || true; rm -rf my-docs"
"""What somebody types who begins anew."""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    for port in (8000, 5555):
        if not is_free(port):
            pytest.skip(f"the page's port {port} is taken on this machine")
    return Desk.in_folder(tmp_path_factory.mktemp("desk"))


def after_up(page: list[CodeBlock]) -> int:
    return next(place for place, block in enumerate(page, 1) if starts(block))


@pytest.fixture(scope="module")
def terminal(desk: Desk) -> Iterator[FirstTerminal]:
    with desk.first_terminal([REPLICAS, *START[: after_up(START)]]) as terminal:
        yield terminal


@pytest.mark.limit_s(400)
def test_every_command_of_the_start_page_does_what_it_says(desk: Desk, terminal: FirstTerminal) -> None:
    """But it asks forty questions where the page asks a thousand."""
    assert START[-1].code.startswith("seq 1000 |")
    fewer = replace(START[-1], code=START[-1].code.replace("seq 1000", "seq 40"))
    printed = desk.type([*START[after_up(START) : -1], fewer])
    assert "3 added" in printed
    # By Celery, by the client, and over HTTP.
    assert "complete ['my-docs/repairs.md'" in printed
    assert "complete [(1, 'my-docs/repairs.md')" in printed
    assert '"document_id":"my-docs/repairs.md"' in printed
    # The facts of the job when it has ended.
    assert re.search(r"^complete +40 *$", printed, re.MULTILINE), printed
    with httpx.Client(base_url="http://127.0.0.1:5555") as flower:
        (login,) = re.findall(r"login (\S+:\S+)", terminal.printed)
        assert flower.get("/workers", auth=tuple(login.split(":"))).status_code == 200


@pytest.mark.limit_s(400)
@pytest.mark.usefixtures("terminal")
def test_every_command_of_the_readme_does_what_it_says(desk: Desk) -> None:
    up = after_up(README)
    assert re.search("^chorale up --http ", README[up - 1].code, re.MULTILINE), "as on the start page"
    printed = desk.type(README[up:], first=LEFT)
    assert "1 added" in printed
    assert "my-docs/repairs.md" in printed
    # By the client, and over HTTP.
    assert "complete [(1, 'repairs')]\n[]" in printed
    assert '"document_id":"my-docs/repairs.md"' in printed
    # The key for somebody else.
    assert re.search(r"chorale_[\w-]{20,}\n", printed), printed


@pytest.mark.usefixtures("terminal")
def test_status_shows_that_each_replica_serves_all_branches_and_the_fusion(desk: Desk) -> None:
    printed = desk.type([CodeBlock("status", 1, "sh", ".venv/bin/chorale status --json\n")])
    found = {one["name"]: one["queues"] for one in json.loads(printed.splitlines()[-1])["workers"]}
    served = ["chorale.bm25", "chorale.vector", "chorale.hyde", "chorale.fusion"]
    # A machine with more cores has further replicas.
    assert [found[name] for name in ("replica-1", "replica-2", "sweeper")] == [served, served, []]
