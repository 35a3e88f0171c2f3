"""All commands: their list, their imports, and what becomes of an error."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from chorale_client.wire_names import WORST_FIRST
from redis.exceptions import ConnectionError as RedisAway

from cli import app as command_line
from cli.app import PANELS, load_command
from cli.exit_codes import BY_STATUS
from config.blas_threads import VARIABLES
from tests.support.new_process import imported, printed

SUMMARIES = {name: summary for commands in PANELS.values() for name, summary in commands.items()}


def test_the_list_of_commands_has_the_first_paragraph_of_each_commands_help() -> None:
    for name, summary in SUMMARIES.items():
        first_paragraph = (load_command(name).help or "").partition("\n\n")[0]
        assert " ".join(first_paragraph.split()) == summary


def test_a_list_of_commands_cuts_no_sentence_however_narrow_the_terminal_is() -> None:
    groups = [group for name in SUMMARIES if hasattr(group := load_command(name), "commands")]
    assert len(groups) > 5
    for group in groups:
        listed = group.get_help(group.context_class(group, terminal_width=50)).partition("Commands:")[2]
        assert "..." not in listed
        assert listed.count(".\n") + listed.endswith(".") >= len(group.commands)


@pytest.mark.slow
@pytest.mark.parametrize("words", [("search",), ("jobs", "submit")])
def test_an_example_is_one_line_however_narrow_the_terminal_is(words: Sequence[str]) -> None:
    command = load_command(words[0])
    for word in words[1:]:
        command = command.commands[word]
    help_text = command.get_help(command.context_class(command, terminal_width=50))
    examples = [line for line in help_text.splitlines() if line.strip().startswith("chorale ")]
    assert len(examples) >= 2
    assert max(map(len, examples)) > 80
    assert all(line.count("'") % 2 == 0 for line in examples)


@pytest.mark.slow
def test_the_process_of_the_http_api_imports_neither_models_nor_tasks(tmp_path: Path) -> None:
    program = "from cli.commands.processes import serve; import api.serving, console.site"
    unneeded = "numpy tantivy torch onnx onnxruntime tokenizers search inference tasks"
    assert imported(program, unneeded, CHORALE_HOME=str(tmp_path)) == []


PLUGINS = """
import os, sys
from cli.app import run
sys.argv[1:] = [{command!r}]
run(lambda **_: print(os.environ.get("PYDANTIC_DISABLE_PLUGINS")))
"""


@pytest.mark.parametrize(("command", "value"), [("search", "__all__"), ("up", "None"), ("worker", "None")])
def test_only_up_and_the_processes_of_a_pipeline_load_plugins_of_pydantic(command: str, value: str) -> None:
    """Workers run code of others, which may use such a plugin."""
    assert printed(PLUGINS.format(command=command)) == [value]


PROBE = """
import os, sys
import cli.commands.processes
from config.blas_threads import VARIABLES, limit_threads
limit_threads()
assert "numpy" not in sys.modules
print(*(os.environ[name] for name in VARIABLES))
"""


def test_thread_limits_are_set_before_numpy_is_imported_and_the_environment_overrides_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert printed(PROBE, OMP_NUM_THREADS="3") == ["3 1 1"]


def test_every_end_of_a_request_has_an_exit_code_of_its_own() -> None:
    assert BY_STATUS.keys() == set(WORST_FIRST)
    assert sorted(BY_STATUS.values()) == [0, 3, 4, 5, 6, 7]


def test_a_redis_that_goes_away_meanwhile_is_one_sentence_on_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise RedisAway("gone")

    # Later tests of this process make files that servers of another user read.
    monkeypatch.setattr("os.umask", lambda _: 0)
    with pytest.raises(SystemExit) as ended:
        command_line.run(fail)
    assert ended.value.code == 1
    sentence = "Redis does not answer (gone): start it, correct CHORALE_REDIS_URL, or unset it where `chorale up` is to start one"
    assert tuple(capsys.readouterr()) == ("", f"chorale: {sentence}\n")
