"""A whole installation in one PostgreSQL, beside Redis: documents, words, vectors, audit and jobs, with one address."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from chorale_client.wire_names import Status

from tests.support.command_line import in_process
from tests.support.pipelines.pipeline import CORPUS, ROOT, RunningPipeline
from tests.support.servers.postgresql_server import PostgresqlServer
from tests.support.servers.redis_server import RedisServer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pipeline() -> Iterator[RunningPipeline]:
    file = ROOT / "config" / "postgresql.toml"
    with PostgresqlServer() as database, RedisServer() as redis:
        one_address = {"CHORALE_DATABASE_URL": database.url()}
        with RunningPipeline(redis, pipeline_file=file, sweeper=True, environment=one_address) as running:
            folder = running.home / "texts"
            folder.mkdir()
            for name, (title, text) in CORPUS.items():
                (folder / f"{name}.md").write_text(f"# {title}\n\n{text}\n")
            done = in_process("index", str(folder), "--namespace", "docs", **running.environment)
            assert done.returncode == 0, done.stderr
            yield running


def test_every_branch_finds_answers_also_with_completed_scores(pipeline: RunningPipeline) -> None:
    for configuration in ("rrf", "scores"):
        answer = pipeline.client().retrieve(
            "Who pays for repairs?", namespace="docs", configuration=configuration, timeout_s=30
        )
        assert answer.status == Status.COMPLETE
        assert answer.hits[0].title == "Repairs"
        assert {"search.bm25", "search.vector", "search.hyde"} <= {line.stage for line in answer.stages}


def test_a_doctor_finds_nothing_to_mend_and_no_file_of_sqlite_is_written(pipeline: RunningPipeline) -> None:
    done = in_process("doctor", "--json", **pipeline.environment)
    checks = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    assert {name: check for name, check in checks.items() if check["status"] == "fail"} == {}
    assert list(pipeline.home.rglob("*.db")) == []
