"""Commands as processes of their own: the entry, the exit code, and where it prints."""

from __future__ import annotations

import pytest

from tests.support.command_line import as_process
from tests.support.pipelines.pipeline import RunningPipeline


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "printed"),
    [
        (("search", "bread"), 0, "complete"),
        (("cancel", "never-sent"), 1, "'never-sent' not found"),
        (("worker", "chorale.nosuch"), 2, "no queue"),
    ],
)
def test_a_command_ends_with_its_exit_code_and_prints_errors_to_stderr(
    arguments: tuple[str, ...], code: int, printed: str, pipeline: RunningPipeline
) -> None:
    called = as_process(*arguments, **pipeline.environment)
    assert called.returncode == code, called.stdout + called.stderr
    expected, other = (called.stdout, called.stderr) if code == 0 else (called.stderr, called.stdout)
    # Long paths wrap the line.
    assert printed in " ".join(expected.split())
    assert other == ""
