"""Pages as somebody types them: an empty home, no variable of ours, a second terminal beside `chorale up`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.code_blocks import ROOT, CodeBlock, code_blocks
from tests.support.pipelines.forked_children import forked_command
from tests.support.waiting import until

_CHORALE = f"env PYTHONPATH={ROOT}:{ROOT}/client {sys.executable} -m cli"
_NAMED = re.compile(r"# (\w+\.py)\n")
_CLONE_COMMAND = re.compile(r"^(?:make|git) .*$", re.MULTILINE)


def blocks_of(page: str, *, after: str = "", before: str = "") -> list[CodeBlock]:
    """The blocks of Python and shell between two headings of a page."""
    lines = (ROOT / page).read_text("utf-8").splitlines()
    first = lines.index(after) if after else 0
    last = lines.index(before) if before else len(lines)
    blocks = [block for block in code_blocks() if block.page == page and first < block.line <= last]
    return [block for block in blocks if block.language in ("sh", "python")]


def starts(block: CodeBlock) -> bool:
    return re.search("^chorale up", block.code, re.MULTILINE) is not None


@dataclass(frozen=True, slots=True)
class Desk:
    """A home that is also the folder of a clone: this environment stands in place of the clone's own."""

    folder: Path

    @classmethod
    def in_folder(cls, folder: Path) -> Desk:
        (folder / ".venv").symlink_to(Path(sys.prefix))
        return cls(folder)

    @property
    def data_folder(self) -> Path:
        return self.folder / ".local" / "share" / "chorale"

    @property
    def variables(self) -> dict[str, str]:
        others = {
            name: value for name, value in os.environ.items() if not name.startswith(("CHORALE", "XDG"))
        }
        return {**others, "HOME": str(self.folder)}

    def type(self, blocks: Sequence[CodeBlock], *, first: str = "", timeout_s: float = 240) -> str:
        """What one terminal prints; fails with it where a command fails.

        A Python block that begins with a file's name becomes that file, any other one is run in its place.  The calls of `chorale`
        are forks of a process that has imported the product.
        """
        script = [first]
        for block in blocks:
            if block.language == "sh":
                script.append(_shell(block))
            elif (name := _NAMED.match(block.code)) is not None:
                (self.folder / name[1]).write_text(block.code)
            else:
                script.append(f"python - <<'END'\n{block.code}END")
        with forked_command("cli") as chorale:
            script.insert(0, f'chorale() {{ {chorale} "$@"; }}')
            done = subprocess.run(
                ["bash", "-e", "-c", "\n".join(script)],
                cwd=self.folder,
                env=self.variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=timeout_s,
            )
        assert done.returncode == 0, done.stdout
        return done.stdout

    @contextmanager
    def first_terminal(self, blocks: Sequence[CodeBlock], *, options: str = "") -> Iterator[FirstTerminal]:
        """Types blocks, the last of which is `chorale up`; Ctrl-C ends it with the `with` block."""
        script = "\n".join(_shell(block) for block in blocks)
        script = re.sub(
            r"^chorale up([^#\n]*)", rf"exec {_CHORALE} up\1{options}", script, flags=re.MULTILINE
        )
        printed = self.folder / "up.txt"
        with printed.open("w") as out:
            up = subprocess.Popen(
                ["bash", "-e", "-c", script],
                cwd=self.folder,
                env=self.variables,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        terminal = FirstTerminal(up, printed)
        try:
            until(lambda: "ready: `chorale index" in terminal.printed or up.poll() is not None, 170)
            assert up.poll() is None, terminal.printed
            yield terminal
            terminal.stop()
        finally:
            up.kill()
            up.wait()


@dataclass(frozen=True, slots=True)
class FirstTerminal:
    up: subprocess.Popen[bytes]
    file: Path

    @property
    def printed(self) -> str:
        return self.file.read_text()

    def stop(self) -> None:
        """Press Ctrl-C."""
        if self.up.poll() is None:
            self.up.send_signal(signal.SIGINT)
        assert self.up.wait(60) == 0, self.printed


def _shell(block: CodeBlock) -> str:
    """The block without the lines that install or need a repository; the Makefile has their targets."""
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for line in _CLONE_COMMAND.findall(block.code):
        words = line.partition("#")[0].split()
        assert words[0] == "git" or set(words[1:]) <= targets, line
    return f"echo '[{block}]'\n{_CLONE_COMMAND.sub('', block.code)}"
