"""`chorale up` with replicas: real processes answer, and `chorale status` says what each of them serves."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from chorale_client import Chorale

from config.home import find_redis_url
from tests.acceptance.installations.test_up import lines_until
from tests.support.command_line import in_process
from tests.support.pipelines.forked_children import running_module

SERVED = ["chorale.bm25", "chorale.vector", "chorale.hyde", "chorale.fusion"]


@pytest.mark.slow
def test_replicas_answer_and_status_shows_that_each_serves_all_branches_and_the_fusion(
    tmp_path: Path,
) -> None:
    around = {"CHORALE_HOME": str(tmp_path / "home"), "CHORALE_LAYOUT": "replicas"}
    (tmp_path / "repairs.txt").write_text("The landlord pays for repairs.")
    environment = {**os.environ, **around}
    with running_module("cli", "up", "--json", "--processes", "index=0", environment=environment) as (
        _,
        output,
    ):
        lines_until(output, "ready: ")
        indexed = in_process("index", str(tmp_path / "repairs.txt"), "--where", "here", **around)
        assert indexed.returncode == 0, indexed.stderr
        url = find_redis_url(tmp_path / "home")
        assert url is not None
        answer = Chorale(url).retrieve("who pays for repairs?", timeout_s=20)
        assert answer.status == "complete"
        assert len(answer.hits) == 1
        workers = json.loads(in_process("status", "--json", **around).stdout)["workers"]
        served = {worker["name"]: worker["queues"] for worker in workers}
        # A machine with more cores has further replicas.
        assert [served[name] for name in ("replica-1", "replica-2", "sweeper")] == [SERVED, SERVED, []]
