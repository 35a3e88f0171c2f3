"""Writes the results of a job to a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import typer

from config.visible_text import visible, visible_json
from jobs.job import Job, State
from jobs.result_formats import FORMATS
from jobs.store import Jobs


class Reading(Iterator[Mapping[str, Any]]):
    """The result lines of a job up to the first line without one; all of them if the job ends during the reading."""

    def __init__(self, store: Jobs, job: Job, after: int) -> None:
        self.job = job
        """The job when the last of its results was read."""
        self.last = after
        """The number of the last line that was read."""
        self._store = store
        self._lines = store.results(job.job_id, after=after)

    def __next__(self) -> Mapping[str, Any]:
        line = next(self._lines, None)
        while line is None and self.job.state != State.ENDED:
            self.job = self._store.get(self.job.job_id)
            if self.job.state != State.ENDED:
                break
            self._lines = self._store.results(self.job.job_id, after=self.last)
            line = next(self._lines, None)
        if line is None:
            raise StopIteration
        self.last = line["line"]
        return line


def form_of_results(option: str | None, output: Path | None) -> str:
    """The format: `given`, else by the name of `output`, else JSON lines.  Raises BadParameter."""
    suffix = "" if output is None else output.suffix.removeprefix(".")
    form = option or (suffix if suffix in FORMATS else "jsonl")
    if form == "parquet" and output is None:
        raise typer.BadParameter("Parquet needs a file: add --output FILE", param_hint="--format")
    return form


def write_to_stdout(parts: Iterable[bytes], form: str) -> None:
    """Write results as they are; on a terminal, control characters become visible."""
    if not sys.stdout.isatty():
        sys.stdout.buffer.writelines(parts)
        return
    made_visible = visible_json if form == "jsonl" else visible
    sys.stdout.writelines(made_visible(part.decode()) for part in parts)


@contextmanager
def replaced(file: Path) -> Iterator[IO[bytes]]:
    """A stream whose content replaces `file` when all of it is written; after an error `file` stays as it is."""
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("wb") as stream:
            yield stream
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
