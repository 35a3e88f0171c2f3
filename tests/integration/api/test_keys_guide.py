"""The commands of docs/guides/keys.md, in their order, against a running API."""

from __future__ import annotations

import os
import re
import shlex
import subprocess

import pytest

from tests.support.code_blocks import code_blocks
from tests.support.command_line import in_process
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.http_api import HttpApi

PAGE = "docs/guides/keys.md"


@pytest.mark.slow
def test_the_commands_of_the_page_do_what_it_says(api: HttpApi, api_pipeline: RunningPipeline) -> None:
    api_pipeline.index(namespace="docs", customer="acme")
    environment = {**os.environ}
    made: list[str] = []
    said: list[str] = []
    lines = [line for block in code_blocks("sh") if block.page == PAGE for line in block.code.splitlines()]
    for line in lines:
        if line.startswith("export KEY="):
            environment["KEY"] = made[0]
            continue
        command = line.replace("http://127.0.0.1:8000", api.origin)
        if made:
            command = command.replace("k3v9x0q2m7tz", made[0].split("_")[1])
        program, *arguments = shlex.split(command, comments=True)
        if program == "chorale":
            called = in_process(*arguments, **api_pipeline.environment)
        else:
            called = subprocess.run(
                ["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=60
            )
        assert called.returncode == 0, (command, called.stderr)
        said.append(called.stdout)
        made += re.findall(r"^chorale_\S{12}_\S{43}$", called.stdout, re.MULTILINE)
    assert len(made) == 3
    assert '"status":"complete"' in said[2]
    assert said[-1].endswith(": revoked\n")
