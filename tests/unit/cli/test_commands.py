"""All commands: their list, their imports, and what becomes of an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from chorale_client.errors import InvalidRequest, ServiceUnavailable
from chorale_client.words import WORST_FIRST
from redis.exceptions import ConnectionError as RedisAway
from redis.exceptions import NoPermissionError

from cli import app as command_line
from cli.command_list import PANELS, load_command
from cli.exit_codes import BY_STATUS
from models.errors import WriterBusy, WrongDeclaration

ROOT = Path(__file__).parents[3]
SUMMARIES = {name: summary for commands in PANELS.values() for name, summary in commands.items()}


def test_the_list_of_commands_has_the_first_paragraph_of_each_commands_help() -> None:
    for name, summary in SUMMARIES.items():
        first_paragraph = (load_command(name).help or "").partition("\n\n")[0]
        assert " ".join(first_paragraph.split()) == summary


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["--help"], ["celery", "chorale_client", "kombu", "numpy", "pydantic", "redis", "structlog"]),
        (["search", "bread"], ["numpy", "onnxruntime", "sqlalchemy", "structlog", "tantivy"]),
    ],
    ids=["help", "search"],
)
def test_a_command_imports_only_what_it_needs(
    arguments: list[str], unneeded: list[str], tmp_path: Path
) -> None:
    program = (
        "import sys; from typer.testing import CliRunner; from cli.app import app\n"
        f"CliRunner().invoke(app, {arguments})\n"
        f"print(*[name for name in {unneeded} if name in sys.modules])"
    )
    called = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "CHORALE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert called.stdout.split() == []


def test_every_end_of_a_request_has_an_exit_code_of_its_own() -> None:
    assert BY_STATUS.keys() == set(WORST_FIRST)
    assert sorted(BY_STATUS.values()) == [0, 3, 4, 5, 6, 7]


RIGHTS = "this user has no permissions to run the 'info' command"


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (WriterBusy("somebody writes"), 1, "somebody writes"),
        (ServiceUnavailable("no Redis"), 1, "no Redis"),
        (WrongDeclaration("a wrong setting"), 2, "a wrong setting"),
        (InvalidRequest("top_k: too large"), 2, "top_k: too large"),
        (RedisAway("gone"), 1, "Redis does not answer (gone): start it, or correct CHORALE_REDIS_URL"),
        (
            NoPermissionError(RIGHTS),
            1,
            f"Redis does not allow this login to do that ({RIGHTS}): put a login with that permission into "
            "CHORALE_REDIS_URL, such as the operator's",
        ),
    ],
)
def test_an_error_is_one_sentence_on_stderr(
    error: Exception,
    code: int,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(command_line, "app", fail)
    with pytest.raises(SystemExit) as ended:
        command_line.run()
    assert ended.value.code == code
    assert tuple(capsys.readouterr()) == ("", f"chorale: {sentence}\n")
