"""The progress of long work on a terminal: one bar that disappears, and elsewhere a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from cli.terminal import Text, duration, stderr
from config.visible_text import visible

if TYPE_CHECKING:
    from rich.console import Console

    from tasks.indexing.indexing_run import Progress

LINE_EVERY_S = 5.0
"""Where no terminal is."""


class ProgressBar(Bar):
    """Where no terminal is, `prints_at_once` prints the first line without waiting."""

    def __init__(
        self, console: Console, what: str = "", *, total: int | None = None, prints_at_once: bool = False
    ) -> None:
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", style="dim", markup=False),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._work = self.add_task(visible(what), total=total, count="", note="")
        self._line_s = time.monotonic() - (LINE_EVERY_S if prints_at_once else 0.0)

    def say(self, what: str, *, total: int | None = None) -> None:
        """Show what is being done; `total` is the approximate number of its parts."""
        self.update(self._work, description=visible(what), total=total)

    def write_line(self, what: str) -> None:
        """Print a line that stays, also where no terminal is."""
        self.console.print(Text(what), soft_wrap=True)

    def show(self, done: int, *, in_work: float = 0.0, note: str = "") -> None:
        """Show how many parts are done; `in_work` is how much is done of others, which count as soon as it is a whole one."""
        # The total is an estimate; the bar must not exceed its end.
        total = max(int(self.tasks[0].total or 0), done)
        count = f"{int(done + in_work):,} of {total:,}"
        self.update(self._work, total=total, completed=done + in_work, count=count, note=note)
        if not self.console.is_terminal and (now_s := time.monotonic()) >= self._line_s + LINE_EVERY_S:
            self._line_s = now_s
            self.write_line(", ".join(filter(None, (f"{self.tasks[0].description}: {count}", note))))

    def show_indexing(self, so_far: Progress) -> None:
        self.show(so_far.documents, in_work=so_far.in_work, note=note(so_far))


def note(so_far: Progress) -> str:
    """What is done of the present batch, or the rate, and remaining time as text."""
    done, passages = so_far.batch
    batch = f"{done:,} of {passages:,} passages" if passages else f"{so_far.passages_per_s:,.0f} passages/s"
    return batch if so_far.remaining_s is None else f"{batch} · {duration(so_far.remaining_s)} left"


@contextmanager
def question_bar(console: Console, total: int | None) -> Iterator[Callable[[str, int], None]]:
    """Yields a function to call with what is asked, and how many questions were answered since the last call."""
    done = 0
    with ProgressBar(console, "asking", total=total) as bar:

        def progress(what: str, questions: int) -> None:
            nonlocal done
            done += questions
            bar.say(what, total=total)
            bar.show(done)

        yield progress


def working_bar(what: str) -> ProgressBar:
    """A moving bar on stderr for work whose end cannot be estimated."""
    return ProgressBar(stderr(), what)
