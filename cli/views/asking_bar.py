"""The progress of asking many questions on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def asking_bar(console: Console, total: int | None) -> Iterator[Callable[[str, int], None]]:
    """Yields a function to call with what is asked, and how many questions were answered since the last call."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=28), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as shown:
        task = shown.add_task("asking", total=total)
        yield lambda what, questions: shown.update(task, description=what, advance=questions)
