"""docs/start.md as somebody types it: an empty home, no variable of ours, a second terminal where the page says so."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from cli.local.redis_server import is_free
from tests.support.code_blocks import CodeBlock, code_blocks
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
BLOCKS = [block for block in code_blocks() if block.page == "docs/start.md"]
INSTALL, UP, *_ = [block.code for block in BLOCKS if block.language == "sh"]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which somebody works, with this environment in place of a clone's own."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / ".venv").symlink_to(Path(sys.prefix))
    return folder


@pytest.fixture(scope="module")
def environment(desk: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CHORALE", "XDG"))}
    return {**kept, "HOME": str(desk)}


@pytest.fixture(scope="module")
def terminal(desk: Path, environment: dict[str, str]) -> Iterator[Path]:
    """The first terminal, in which `chorale up` runs; the file of what it prints."""
    for port in (8000, 5555):
        if not is_free(port):
            pytest.skip(f"the page's port {port} is taken on this machine")
    printed = desk / "up.txt"
    path = f"{desk}/.venv/bin{os.pathsep}{os.environ['PATH']}"
    with printed.open("w") as out:
        up = subprocess.Popen(
            ["bash", "-c", f"exec {UP}"],
            cwd=desk,
            env={**environment, "PATH": path},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        until(lambda: "ready: ask with" in printed.read_text() or up.poll() is not None, 120)
        assert up.poll() is None, printed.read_text()
        yield printed
    finally:
        up.send_signal(signal.SIGINT)
        assert up.wait(60) == 0, printed.read_text()


def second_terminal(block: CodeBlock) -> bool:
    return block.language == "sh" and block.code not in (INSTALL, UP) and block.line < _line_of("## 6. Leave")


def _line_of(heading: str) -> int:
    return (ROOT / "docs" / "start.md").read_text().splitlines().index(heading)


@pytest.mark.limit_s(300)
def test_every_command_of_the_page_does_what_it_says(
    desk: Path, environment: dict[str, str], terminal: Path
) -> None:
    for block in BLOCKS:
        if block.language == "python":
            name = re.match(r"# (\w+\.py)\n", block.code)
            assert name is not None, block.code
            (desk / name[1]).write_text(block.code)
    script = "\n".join(f"echo '[{block.line}]'\n{block.code}" for block in BLOCKS if second_terminal(block))
    done = subprocess.run(
        ["bash", "-e", "-c", script], cwd=desk, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = done.stdout + done.stderr
    assert "3 added" in printed
    # By Celery, by the client, and over HTTP.
    assert printed.count("['docs/repairs.md'") + printed.count("['my-docs/repairs.md'") == 1, printed
    assert "complete [(1, 'my-docs/repairs.md')" in printed
    assert '"document_id":"my-docs/repairs.md"' in printed
    # The facts of the job when it has ended.
    assert re.search(r"^complete +1,000", printed, re.MULTILINE), printed
    with httpx.Client(base_url="http://127.0.0.1:5555") as flower:
        (login,) = re.findall(r"login (\S+:\S+)", terminal.read_text())
        assert flower.get("/workers", auth=tuple(login.split(":"))).status_code == 200
