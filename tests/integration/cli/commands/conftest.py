"""One running pipeline, and the command line on it and on an empty folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chorale_client.wire_names import QUEUE_BULK

from tests.support.command_line import Run, in_process
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.pipelines.pipeline_files import PATIENT
from tests.support.servers.redis_server import RedisServer


@pytest.fixture(scope="package")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    file = tmp_path_factory.mktemp("patient") / "pipeline.toml"
    file.write_text(PATIENT, encoding="utf-8")
    with (
        RedisServer(appendonly=True) as server,
        RunningPipeline(server, alone=["chorale.vector"], sweeper=True, pipeline_file=file) as running,
    ):
        running.start(QUEUE_BULK)
        running.wait_ready()
        running.index()
        yield running


@pytest.fixture
def chorale(pipeline: RunningPipeline) -> Run:
    """Call a command on the pipeline, in this process."""
    return lambda *arguments, **environment: in_process(*arguments, **{**pipeline.environment, **environment})


@pytest.fixture
def alone(tmp_path: Path) -> Run:
    """Call a command on a home of its own, where nothing runs, in this process."""
    home = {"CHORALE_HOME": str(tmp_path / "home")}
    return lambda *arguments, **environment: in_process(*arguments, **{**home, **environment})
