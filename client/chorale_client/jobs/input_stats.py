"""The lines of a job's input on their way: counted, the wrong ones named, and put into segments and messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from chorale_client.errors import InvalidJob
from chorale_client.jobs.job_line import JobLine
from chorale_client.limits import MAX_QUESTIONS

NAMED = 20
"""Number of wrong lines that are named."""
SEGMENT_LINES = MAX_QUESTIONS
"""Lines that one worker answers at once."""
MESSAGE_BYTES = 64_000
"""Lines are sent in messages of about this size, which take some 10 ms to store, so that commands of other callers do not
wait long; a longer line is sent alone."""
MESSAGE_S = 30.0
"""Lines that come slowly are sent after this time, since a submission that sends nothing for ten minutes has died."""


@dataclass(slots=True)
class InputStats:
    """What has been read of the input."""

    refuses: bool
    """Whether a wrong line refuses the job: then no line after the first wrong one is passed on."""
    progress: Callable[[InputStats], None] = lambda _: None
    lines: int = 0
    wrong: int = 0
    named: list[tuple[int, str]] = field(default_factory=list)
    """The first wrong lines: number and what is wrong."""

    def passed(self, lines: Iterable[JobLine]) -> Iterator[JobLine]:
        for line in lines:
            self.lines += 1
            if line.error is not None:
                self.wrong += 1
                if self.wrong <= NAMED:
                    self.named.append((line.number, _printable(line.error)))
            if self.lines % SEGMENT_LINES == 0:
                self.progress(self)
            if not (self.refuses and self.wrong):
                yield line
        self.progress(self)

    def check(self) -> None:
        """Raises InvalidJob if the job is refused, or has no line."""
        if not self.lines:
            raise InvalidJob("there is no line")
        if self.refuses and self.wrong:
            raise InvalidJob(self.describe(), wrong=self.wrong, lines=self.named)

    def describe(self) -> str:
        """How many lines are wrong, and what is wrong with the first of them, each error on a line of its own."""
        numbers: dict[str, list[str]] = {}
        for number, error in self.named:
            numbers.setdefault(error, []).append(str(number))
        named = [
            f"line{'s' * (len(equal) > 1)} {', '.join(equal)}: {error}" for error, equal in numbers.items()
        ]
        if self.wrong > NAMED:
            named.append(f"and {self.wrong - NAMED:,} more")
        of = "1 line" if self.lines == 1 else f"{self.lines:,} lines"
        return "\n  ".join([f"{self.wrong:,} of {of} {'is' if self.wrong == 1 else 'are'} wrong:", *named])


def messages(lines: Iterable[JobLine]) -> Iterator[list[list[tuple[Any, ...]]]]:
    """Segments of up to 64 lines, several at a time, of about MESSAGE_BYTES together; a line is `JobLine`'s fields."""
    message: list[list[tuple[Any, ...]]] = []
    size, due_s = 0, time.monotonic() + MESSAGE_S
    for line in lines:
        packed = line.number, line.id, line.fields, line.error
        line_size = len(to_json(packed))
        if message and (size + line_size > MESSAGE_BYTES or time.monotonic() > due_s):
            yield message
            message, size, due_s = [], 0, time.monotonic() + MESSAGE_S
        if not message or len(message[-1]) == SEGMENT_LINES:
            message.append([])
        message[-1].append(packed)
        size += line_size
    if message:
        yield message


def _printable(text: str) -> str:
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )
