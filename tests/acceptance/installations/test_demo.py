"""`chorale demo` runs on a terminal, once to its end, once until Ctrl-C, and once until its terminal is closed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Container, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.support.pipelines.pipeline import ROOT
from tests.support.wheels import installed, interpreter

LIMIT_S = 60.0
CHILDREN = 7
"""Redis, a worker for each queue but `index` and `bulk`, the sweeper."""
WITH_THE_CONSOLE = ("cli", "demo", "--console")
NEWEST_FIRST = "3.14", "3.13", "3.12"
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """`python -m WORDS` on a terminal of 100 columns; `folder` is its folder for temporary files."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, b"\x28\x00\x64\x00\x00\x00\x00\x00")
        self.process = subprocess.Popen(
            [sys.executable, "-m", *words],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "TERM": "xterm",
                "COLUMNS": "120",
                "TMPDIR": str(folder),
            },
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(slave)
        self.output = ""

    def read_until(self, end: str | None) -> None:
        """Reads until `end` was shown; with None, until the process has closed the terminal."""
        while end is None or end not in self.output:
            try:
                part = os.read(self._master, 65_536)
            except OSError:  # nobody holds the other end any more
                part = b""
            if not part:
                assert end is None, f"ended without {end!r}:\n{self.output}"
                return
            self.output += _CODES.sub("", part.decode(errors="replace")).replace("\r", "")

    def type(self, line: str) -> None:
        os.write(self._master, f"{line}\n".encode())

    def interrupt(self) -> None:
        self.type("\x03")
        self.read_until(None)

    def close(self) -> None:
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def children(self) -> list[psutil.Process]:
        """Waits until all children of the demo run, and returns them."""
        until = time.monotonic() + LIMIT_S
        while len(children := psutil.Process(self.process.pid).children(recursive=True)) < CHILDREN:
            assert self.process.poll() is None, "it ended"
            assert time.monotonic() < until, children
            time.sleep(0.05)
        return children


def _take_terminal() -> None:
    """Makes the terminal the process's own, as a login does; no signal is ignored."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def folder() -> Iterator[Path]:
    # The path is short, because the path of Redis's socket is limited.
    path = Path(tempfile.mkdtemp(prefix="demo-", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def terminal(folder: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """`chorale demo`, or the words of the parameter."""
    terminal = Terminal(folder, *getattr(request, "param", ("cli", "demo")))
    try:
        yield terminal
    finally:
        terminal.process.kill()
        terminal.process.wait()
        terminal.close()


def assert_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=LIMIT_S)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []


def no_caption_is_false(output: str) -> list[str]:
    """The output of each scene; what its caption says of the right text is what the table above it shows."""
    scenes = re.split(r"\n ?\d  (?=\S)", output)[1:]
    captions = 0
    for scene in scenes:
        match = re.search(
            r"comes first (?:in (no search|every search|[\w ]+))(?:.*); in the fusion it (\w+)", scene
        )
        if match is None:
            continue
        captions += 1
        names = re.search(r"text +(.+) fused", scene)
        right = re.search(r"✓ +\S.*?  +((?:\d+|–)(?: +(?:\d+|–))+)\s*\n", scene)
        assert names
        assert right, scene
        *ranks, fused = right[1].split()
        first = {name for name, rank in zip(names[1].split(), ranks, strict=True) if rank == "1"}
        said = {"no search": set(), "every search": set(names[1].split())}
        assert first == said.get(match[1].removesuffix(" alone"), set(match[1].split(" and "))), scene
        assert (fused == "1") == (match[2] == "comes"), scene
    assert captions == 4, output
    *_, nothing, _, degraded, _ = scenes
    ranks = re.findall(r"(?m)^ {5}\S.*? {2,}(\d+|–) .*\d+ *$", nothing)
    assert ("bm25 finds no word of it" in nothing) == (set(ranks) == {"–"}), nothing
    same = re.search(r"its\s+first\s+text\s+is\s+(not|the\s+same)", degraded)
    assert same
    assert (same[1] != "not") == (first_of(degraded) == first_of(scenes[-3])), degraded
    return scenes


def first_of(scene: str) -> str:
    """The title of the first row of a scene's table."""
    match = re.search(r"text +bm25.*\n +(?:✓ +)?(\S.*?)  ", scene)
    assert match, scene
    return match[1]


@pytest.mark.parametrize("terminal", [WITH_THE_CONSOLE], indirect=True, ids=["with the console"])
def test_every_screen_shows_what_it_claims_and_then_the_demo_takes_questions(
    terminal: Terminal, folder: Path
) -> None:
    children = terminal.children()
    terminal.read_until("an empty line ends.")
    assert re.search(r"━ +\d:\d\d:\d\d", terminal.output), "the seconds that the start takes"
    number, paraphrase, filtered, nothing, agreement, degraded, cached = no_caption_is_false(terminal.output)
    assert "first in bm25 and hyde, not in vector; in the fusion it comes first" in number
    assert "first in vector, not in bm25 and hyde; in the fusion it comes first" in paraphrase
    assert "first in every search; in the fusion it comes first" in filtered
    assert len(re.findall(r"(?m)^ .*  (?:\d+|–) +\d+ *$", filtered)) == 3, "the texts about leave"
    assert "bm25 finds no word of it" in nothing
    assert "first in no search alone; in the fusion it comes first" in agreement
    missing = dict(re.findall(r"missing (\S+) (\w+)", degraded))
    assert missing["search.vector"] == "not_started"
    # A busy machine may lack the 0.1 s before the deadline in which the answer is fused.
    assert missing.keys() <= {"search.vector", "fuse", "fetch"}
    assert re.search(r"answered after [\d,]+ ms, with a limit of 2,000 ms", degraded)
    assert re.search(r"complete · .* ms · ", cached)
    assert "from the cache" in cached
    assert "chorale index ~/docs" in cached
    assert "from chorale_client import Chorale" in cached
    address, key = (
        re.search(line, cached) for line in (r"The console: (\S+)", r"Log in with this key: (\S+)")
    )
    assert address
    assert key
    with httpx.Client(base_url=address[1], follow_redirects=True, timeout=60) as browser:
        browser.post("console/login", data={"key": key[1]})
        page = browser.get("console/search.json", params={"q": "PX-4471", "namespace": "handbook"}).json()
        assert page["answer"]["hits"][0]["document_id"] == "seal-kit-px-4471"
    terminal.type("may a dog travel with me")
    terminal.type("")
    terminal.read_until(None)
    assert "Animals" in terminal.output.partition("an empty line ends.")[2]
    assert terminal.process.wait(LIMIT_S) == 0, terminal.output
    assert_gone(children)
    assert list(folder.iterdir()) == []


@pytest.mark.slow
@pytest.mark.limit_s(400)  # it downloads what the service needs
@pytest.mark.long
def test_no_caption_is_false_on_the_newest_python_of_the_machine(client_wheel: Path, tmp_path: Path) -> None:
    newest = next(filter(None, map(interpreter, NEWEST_FIRST)), None)
    if newest is None:
        pytest.skip(f"without Python {' or '.join(NEWEST_FIRST)}")
    locks = ("-r", ROOT / "requirements/base.txt", "-r", ROOT / "requirements/model.txt")
    python = installed(tmp_path / "venv", *locks, client_wheel, python=str(newest))
    called = subprocess.run(
        (python, "-m", "cli", "demo"), cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert called.returncode == 0, called.stderr
    no_caption_is_false(called.stdout)


@pytest.mark.parametrize(
    ("end", "codes"),
    [
        # During an import, Ctrl-C may end Python by the signal, although the exception was caught: `exec` of a text has noted it.
        # A shell prints 130 for both ends.
        (Terminal.interrupt, (130, -signal.SIGINT)),
        (Terminal.close, range(1, 256)),
    ],
    ids=["Ctrl-C", "a closed terminal"],
)
def test_a_demo_that_is_interrupted_leaves_no_process_and_no_file(
    terminal: Terminal, folder: Path, end: Callable[[Terminal], None], codes: Container[int]
) -> None:
    children = terminal.children()
    end(terminal)
    assert terminal.process.wait(LIMIT_S) in codes
    assert "Traceback" not in terminal.output
    assert_gone(children)
    assert list(folder.iterdir()) == []
