"""Two screens of `chorale demo` as it prints them on a terminal of 100 columns, as SVG."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).parents[2]
SHOWN = ("Agreement", "A worker hangs")
"""How the titles of the screens begin."""
WIDTH = 100
_HEAD = re.compile(r"(?m)^(?=(?:\x1b\[[\d;]*m)* (?:\d+  |Now with yours))")
_FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def write(file: Path) -> None:
    """Runs the whole demo, which takes about a minute."""
    file.write_text(terminal_svg(screens(_run_demo())), encoding="utf-8")


def _run_demo() -> str:
    """What the demo prints, with its colours."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "FORCE_COLOR": "1",
        "COLUMNS": str(WIDTH),
        "TERM": "xterm-256color",
    }
    return subprocess.run(
        [sys.executable, "-m", "cli", "demo"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def screens(printed: str) -> str:
    """The screens to show, in their order."""
    parts = [
        part for part in _HEAD.split(printed) if any(title in part.partition("\n")[0] for title in SHOWN)
    ]
    if len(parts) != len(SHOWN):
        raise ValueError(f"the demo has {len(parts)} of the {len(SHOWN)} screens to draw")
    return "".join(parts)


def terminal_svg(printed: str) -> str:
    """A terminal window with the text; it loads no font from elsewhere."""
    console = Console(
        file=StringIO(), record=True, width=WIDTH, force_terminal=True, color_system="truecolor"
    )
    console.print(Text.from_ansi(re.sub(r"\n{3,}", "\n\n", printed.rstrip())))
    drawn = console.export_svg(title="make demo", theme=MONOKAI, unique_id="demo")
    return _FONT_FACE.sub("", drawn)
