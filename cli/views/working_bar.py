"""What a command does, and for how long, on a terminal: for work whose end cannot be estimated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from cli.terminal import stderr


@contextmanager
def working_bar(what: str) -> Iterator[None]:
    """Shows a moving bar with the time so far on stderr; it disappears at the end."""
    console = stderr()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=28), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        shown.add_task(what, total=None)
        yield
